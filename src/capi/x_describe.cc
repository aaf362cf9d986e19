// sinter_x_*: descriptions of contexts and plans.
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "src/base/printable.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/capi/text.h"
#include "src/explain/render.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

using Json = nlohmann::ordered_json;

// One `key = value` line of a model: numbers as numbers, lists as arrays.
Json ModelValue(absl::string_view text) {
  Json list = Json::array();
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    double number = 0;
    if (absl::SimpleAtod(word, &number)) {
      list.push_back(number);
    } else {
      list.push_back(std::string(word));
    }
  }
  return list.size() == 1 ? list[0] : list;
}

Json ModelJson(const DeviceModel& model) {
  Json object = Json::object();
  const std::string text = model.ToText();
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line.substr(0, line.find('[')), absl::MaxSplits(" = ", 1));
    object[std::string(field.first)] = ModelValue(field.second);
  }
  return object;
}

Json ProvenanceJson(const DeviceModel& model) {
  Json object = Json::object();
  for (const auto& [key, provenance] : model.provenance) object[key] = provenance.ToText();
  return object;
}

std::string DescribeContext(const sinter_context& context) {
  const Ports& ports = context.engine->ports();
  Json object;
  object["library"] = sinter_build_info();
  object["gpu"] = ports.loader != nullptr;
  object["device"] = ports.device_name;
  object["driver"] = ports.driver_name;
  object["reason"] = ports.no_gpu_reason;
  object["cache_dir"] = context.config.cache_enabled ? context.config.cache_dir : "";
  object["model"] = ModelJson(ports.model);
  object["provenance"] = ProvenanceJson(ports.model);
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Neither a secret itself nor a URL's password.
std::string Shown(const EnvironmentVariable& variable) {
  const std::string& value = variable.value;
  if (value.empty()) return value;
  if (variable.name == "SINTER_REMOTE_KEY" || variable.name == "SINTER_REMOTE_PASSWORD") {
    return "(set)";
  }
  const size_t user = value.find("://"), at = value.rfind('@');
  if (variable.name != "SINTER_REMOTE" || at == std::string::npos || user >= at) return value;
  return value.substr(0, user) + "://(user)" + value.substr(at);
}

std::string DescribeEnvironment() {
  const EnvironmentReading reading = ReadEnvironment();
  Json object;
  object["variables"] = Json::array();
  for (const EnvironmentVariable& variable : reading.variables) {
    object["variables"].push_back(
        {{"name", variable.name}, {"value", Shown(variable)}, {"error", variable.error}});
  }
  object["warnings"] = reading.config.warnings;
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace
}  // namespace sinter::capi

using Text = absl::StatusOr<std::string>;

extern "C" {

sinter_status sinter_x_context_describe(const sinter_context* context, sinter_x_text** out_json,
                                        sinter_error** error) {
  return capi::GiveText(out_json, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    return capi::DescribeContext(*context);
  });
}

sinter_status sinter_x_context_get_model(const sinter_context* context, sinter_x_text** out_text,
                                         sinter_error** error) {
  return capi::GiveText(out_text, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    return context->engine->ports().model.ToText();
  });
}

sinter_status sinter_x_context_get_toolchain(const sinter_context* context,
                                             sinter_x_text** out_text, sinter_error** error) {
  return capi::GiveText(out_text, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    return context->engine->ports().compiler->ToolchainId();
  });
}

sinter_status sinter_x_environment(sinter_x_text** out_json, sinter_error** error) {
  return capi::GiveText(out_json, error, [&]() -> Text { return capi::DescribeEnvironment(); });
}

sinter_status sinter_x_model_names(sinter_x_text** out_names, sinter_error** error) {
  return capi::GiveText(out_names, error, [&]() -> Text {
    std::string names;
    for (const std::string& name : sinter::BuiltinModelNames()) names += name + "\n";
    return names;
  });
}

const char* sinter_x_context_get_cache_dir(const sinter_context* context) {
  if (!capi::IsLive(context) || !context->config.cache_enabled) return "";
  return context->config.cache_dir.c_str();
}

const char* sinter_x_plan_get_name(const sinter_plan* plan) {
  return capi::IsLive(plan) ? plan->prepared->plan().name().data() : "";
}

uint32_t sinter_x_plan_get_kernel_count(const sinter_plan* plan) {
  if (!capi::IsLive(plan)) return 0;
  return static_cast<uint32_t>(plan->prepared->plan().kernels.size());
}

double sinter_x_plan_get_predicted_us(const sinter_plan* plan) {
  return capi::IsLive(plan) ? plan->prepared->plan().PredictedUs() : 0;
}

sinter_status sinter_x_plan_to_json(const sinter_plan* plan, sinter_x_text** out_json,
                                    sinter_error** error) {
  return capi::GiveText(out_json, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return sinter::PlanJson(plan->prepared->plan());
  });
}

sinter_status sinter_x_plan_summary(const sinter_plan* plan, sinter_x_text** out_text,
                                    sinter_error** error) {
  return capi::GiveText(out_text, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return sinter::PrintableLines(plan->prepared->Summary());
  });
}

sinter_status sinter_x_plan_explain_json(const sinter_plan* plan, sinter_x_text** out_json,
                                         sinter_error** error) {
  return capi::GiveText(out_json, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return plan->prepared->ExplainJson();
  });
}

sinter_status sinter_x_plan_svg(const sinter_plan* plan, sinter_x_text** out_svg,
                                sinter_error** error) {
  return capi::GiveText(out_svg, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    return plan->prepared->Svg();
  });
}

sinter_status sinter_x_plan_get_source(const sinter_plan* plan, uint32_t kernel,
                                       sinter_x_text** out_source, sinter_error** error) {
  return capi::GiveText(out_source, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::Check(plan, "plan"));
    const size_t count = plan->prepared->plan().kernels.size();
    if (kernel >= count) {
      return absl::OutOfRangeError(
          absl::StrCat("kernel is ", kernel, ", the plan has ", count, " kernels"));
    }
    return plan->prepared->SourceOf(static_cast<int>(kernel));
  });
}

}  // extern "C"
