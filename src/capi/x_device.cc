// sinter_x_device_*, sinter_x_time: device memory and measuring.
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/capi/structs.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

absl::StatusOr<Measurer*> MeasurerOf(const sinter_context* context) {
  SINTER_RETURN_IF_ERROR(Check(context, "context"));
  const Ports& ports = context->engine->ports();
  if (ports.measurer != nullptr) return ports.measurer.get();
  return absl::UnavailableError(absl::StrCat("no GPU: ", ports.no_gpu_reason));
}

absl::StatusOr<double> TimeBindings(Measurer& measurer,
                                    const std::vector<const sinter_binding*>& bindings, int64_t m,
                                    const sinter_x_time_options& options) {
  const bool pdl = (options.flags & SINTER_LAUNCH_PDL) != 0;
  const auto enqueue = [&](StreamHandle stream, int i) {
    const sinter_binding& next = *bindings[static_cast<size_t>(i) % bindings.size()];
    return next.prepared->Launch(*next.binding, stream, m, pdl);
  };
  const int calls = options.calls == 0 ? 20 : static_cast<int>(std::min(options.calls, 10000u));
  const int replays =
      options.replays == 0 ? 15 : static_cast<int>(std::min(options.replays, 10000u));
  return measurer.TimeGraph({enqueue}, calls, replays);
}

absl::StatusOr<std::vector<const sinter_binding*>> ReadBindings(
    uint32_t count, const sinter_binding* const* bindings) {
  if (count == 0) return absl::InvalidArgumentError("count is 0, must be >= 1");
  SINTER_RETURN_IF_ERROR(CheckNotNull(bindings, "bindings"));
  for (uint32_t i = 0; i < count; ++i) {
    SINTER_RETURN_IF_ERROR(Check(bindings[i], absl::StrCat("bindings[", i, "]")));
  }
  return std::vector<const sinter_binding*>(bindings, bindings + count);
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_x_device_alloc(sinter_context* context, uint64_t bytes,
                                    sinter_device_ptr* out_ptr, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_ptr, "out_ptr"));
    SINTER_ASSIGN_OR_RETURN(sinter::Measurer * measurer, capi::MeasurerOf(context));
    SINTER_ASSIGN_OR_RETURN(const sinter::DeviceBuffer buffer, measurer->Allocate(bytes));
    *out_ptr = buffer.ptr;
    return absl::OkStatus();
  });
}

void sinter_x_device_free(sinter_context* context, sinter_device_ptr ptr, uint64_t bytes) {
  if (ptr == 0) return;
  capi::Guard(nullptr, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(sinter::Measurer * measurer, capi::MeasurerOf(context));
    measurer->Free({ptr, bytes});
    return absl::OkStatus();
  });
}

sinter_status sinter_x_device_fill(sinter_context* context, sinter_device_ptr ptr, uint64_t bytes,
                                   uint8_t byte, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(sinter::Measurer * measurer, capi::MeasurerOf(context));
    return measurer->Fill({ptr, bytes}, byte);
  });
}

sinter_status sinter_x_time(sinter_context* context, uint32_t count,
                            const sinter_binding* const* bindings, uint32_t symbol_count,
                            const int64_t* symbols, const sinter_x_time_options* options,
                            double* out_us, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(sinter::Measurer * measurer, capi::MeasurerOf(context));
    SINTER_ASSIGN_OR_RETURN(const auto given,
                            capi::ReadOptions(options, "time", SINTER_LAUNCH_PDL));
    SINTER_ASSIGN_OR_RETURN(const auto list, capi::ReadBindings(count, bindings));
    SINTER_ASSIGN_OR_RETURN(const int64_t m, capi::SymbolM(list[0]->uses_m, symbol_count, symbols));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_us, "out_us"));
    SINTER_ASSIGN_OR_RETURN(*out_us, capi::TimeBindings(*measurer, list, m, given));
    return absl::OkStatus();
  });
}

}  // extern "C"
