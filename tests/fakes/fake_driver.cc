// Core of the fake: the table, the state of threads, devices, modules and launches.
#include "tests/fakes/fake_driver.h"

#include <elf.h>

#include "src/base/device_model.h"
#include "tests/fakes/fake_calls.h"

namespace sinter {
namespace {

std::atomic<FakeDriver*> g_fake{nullptr};
thread_local bool t_in_callback = false;

enum FunctionId : int {
#define SINTER_FAKE_ID(field, symbol, parameters) k##field,
  SINTER_DRIVER_REQUIRED(SINTER_FAKE_ID) SINTER_DRIVER_OPTIONAL(SINTER_FAKE_ID)
#undef SINTER_FAKE_ID
};

constexpr const char* kNames[] = {
#define SINTER_FAKE_NAME(field, symbol, parameters) symbol,
    SINTER_DRIVER_REQUIRED(SINTER_FAKE_NAME) SINTER_DRIVER_OPTIONAL(SINTER_FAKE_NAME)
#undef SINTER_FAKE_NAME
};

// Calls that the real driver forbids while another stream captures, unless the thread is in relaxed
// mode.
bool IsUnsafe(int function) {
  switch (function) {
    case kDevicePrimaryCtxRetain:
    case kDevicePrimaryCtxRelease:
    case kModuleLoadData:
    case kModuleUnload:
    case kFuncLoad:
    case kMemAlloc:
    case kMemFree:
    case kMemHostAlloc:
    case kMemFreeHost:
    case kIpcOpenMemHandle:
    case kIpcCloseMemHandle:
    case kMemCreate:
    case kMemRelease:
    case kMemImportFromShareableHandle:
    case kMemMap:
    case kMemUnmap:
    case kMemSetAccess:
    case kCtxEnablePeerAccess:
    case kStreamCreate:
    case kStreamDestroy:
    case kStreamSynchronize:
    case kEventCreate:
    case kEventDestroy:
    case kEventSynchronize:
    case kGraphInstantiate:
      return true;
    default:
      return false;
  }
}

// Calls that do their work though they report an error, which may be an earlier launch's.
bool ReleasesAnyway(int function) {
  switch (function) {
    case kDevicePrimaryCtxRelease:
    case kModuleUnload:
    case kMemFree:
    case kMemFreeHost:
    case kIpcCloseMemHandle:
    case kMemRelease:
    case kMemAddressFree:
    case kMemUnmap:
    case kStreamDestroy:
    case kStreamEndCapture:
    case kEventDestroy:
    case kGraphDestroy:
    case kGraphDestroyNode:
    case kGraphExecDestroy:
    case kUserObjectRelease:
      return true;
    default:
      return false;
  }
}

template <auto kMethod, int kFunction>
struct Trampoline;

template <typename... Args, CUresult (FakeCalls::*kMethod)(Args...), int kFunction>
struct Trampoline<kMethod, kFunction> {
  static CUresult Call(Args... args) {
    FakeDriver* fake = g_fake.load();
    if (fake == nullptr) return CUDA_ERROR_DEINITIALIZED;
    std::lock_guard<std::recursive_mutex> lock(FakeCalls::Mutex(*fake));
    FakeCalls calls{*fake};
    if (kFunction != kGetErrorName && kFunction != kGetErrorString) {
      const CUresult result = FakeCalls::EnterCall(*fake, kFunction);
      if (result != CUDA_SUCCESS) {
        if (ReleasesAnyway(kFunction)) (calls.*kMethod)(args...);
        return result;
      }
    }
    return (calls.*kMethod)(args...);
  }
};

// The driver is given no length: what the headers say. `image` was checked before it came here.
uint64_t ImageBytes(const void* image) {
  const char* bytes = static_cast<const char*>(image);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof(header));
  uint64_t end = header.e_shoff + uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

CUcontext ContextOf(int device) { return HandleOf<CUcontext>(0x100 + device); }

}  // namespace

FakeMap DecodeFakeMap(const std::string& param) {
  FakeMap map{};
  if (param.size() == sizeof(CUtensorMap)) std::memcpy(&map, param.data(), sizeof(map));
  return map;
}

FakeDriver::FakeDriver(std::vector<FakeChip> chips) : chips_(std::move(chips)) {
  g_fake.store(this);
}

FakeDriver::~FakeDriver() { g_fake.store(nullptr); }

DriverTable FakeDriver::Table() const {
  DriverTable table;
#define SINTER_FAKE_ROW(field, symbol, parameters) \
  table.field = &Trampoline<&FakeCalls::field, k##field>::Call;
  SINTER_DRIVER_REQUIRED(SINTER_FAKE_ROW)
  SINTER_DRIVER_OPTIONAL(SINTER_FAKE_ROW)
#undef SINTER_FAKE_ROW
  if (kernel.param_sizes.empty()) table.FuncGetParamInfo = nullptr;
  return table;
}

CUresult FakeDriver::Enter(int function) {
  ++calls_;
  if (recording_) log_.push_back(kNames[function]);
  if (t_in_callback) violations_.push_back(std::string(kNames[function]) + " in a callback");
  if (fail_at_ > 0 && --fail_at_ == 0) return fail_with_;
  if (IsUnsafe(function) && Thread().mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    BreakCaptures(kNames[function]);
  }
  return CUDA_SUCCESS;
}

void FakeDriver::BreakCaptures(const char* name) {
  for (auto& [id, stream] : streams_) {
    if (stream.graph == 0 || stream.mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    stream.invalidated = true;
    violations_.push_back(std::string(name) + " broke a capture");
  }
}

CUcontext FakeDriver::Current() {
  const ThreadState& state = Thread();
  return state.stack.empty() ? nullptr : state.stack.back();
}

void FakeDriver::Release(uintptr_t object, int count, Callbacks* callbacks) {
  auto found = objects_.find(object);
  if (found == objects_.end()) return;
  found->second.references -= count;
  if (found->second.references > 0) return;
  callbacks->emplace_back(found->second.destroy, found->second.pointer);
  objects_.erase(found);
}

void FakeDriver::Run(const Callbacks& callbacks) {
  const bool outer = t_in_callback;
  t_in_callback = true;
  for (const auto& [function, pointer] : callbacks) function(pointer);
  t_in_callback = outer;
}

void FakeDriver::FailCall(int n, CUresult result) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  fail_at_ = n;
  fail_with_ = result;
}

int FakeDriver::calls() const {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  return calls_;
}

std::vector<std::string> FakeDriver::CallNames() const {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  return std::vector<std::string>(log_.begin(), log_.end());
}

std::vector<FakeLaunch> FakeDriver::launches() const {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  return launches_;
}

std::vector<std::string> FakeDriver::violations() const {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  return violations_;
}

FakeLive FakeDriver::live() const {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  FakeLive live;
  for (const auto& [device, count] : retained_) live.contexts += count;
  live.modules = static_cast<int>(modules_.size());
  for (const auto& [id, module] : modules_) live.module_bytes += module.bytes;
  live.streams = static_cast<int>(streams_.size());
  live.events = static_cast<int>(events_.size());
  live.graphs = static_cast<int>(graphs_.size());
  live.execs = static_cast<int>(execs_.size());
  live.allocations = static_cast<int>(allocations_.size());
  live.user_objects = static_cast<int>(objects_.size());
  for (const auto& [pointer, count] : opened_) live.opened_handles += count;
  live.allocations += static_cast<int>(created_.size() + reserved_.size());
  return live;
}

std::vector<CUcontext> FakeDriver::ContextStack() {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  return Thread().stack;
}

CUstreamCaptureMode FakeDriver::CaptureMode() {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  return Thread().mode;
}

// ---------------------------------------------------------------- devices and contexts

CUresult FakeCalls::Init(unsigned int) { return CUDA_SUCCESS; }

CUresult FakeCalls::DriverGetVersion(int* version) {
  const char* told = std::getenv("FAKE_CUDA");  // "12040": CUDA 12.4
  *version = told == nullptr ? 13000 : std::atoi(told);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::GetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

CUresult FakeCalls::GetErrorString(CUresult, const char** text) {
  *text = "made to fail";
  return CUDA_SUCCESS;
}

CUresult FakeCalls::DeviceGetCount(int* count) {
  *count = static_cast<int>(f.chips_.size());
  return CUDA_SUCCESS;
}

CUresult FakeCalls::DeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::DeviceGetName(char* name, int size, CUdevice device) {
  std::strncpy(name, f.chips_.at(device).name.c_str(), size);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::DeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  const FakeChip& chip = f.chips_.at(device);
  const std::map<int, int> values = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, chip.cc_major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, chip.cc_minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, chip.sm_count},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, chip.shared_bytes},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, chip.l2_bytes},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, chip.clock_khz},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
  };
  const auto found = values.find(attribute);
  if (found == values.end()) return CUDA_ERROR_INVALID_VALUE;
  *value = found->second;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::DeviceTotalMem(size_t* bytes, CUdevice device) {
  *bytes = f.chips_.at(device).memory_bytes;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::DevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ++f.retained_[device];
  *context = ContextOf(device);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::DevicePrimaryCtxRelease(CUdevice device) {
  if (f.retained_[device] == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --f.retained_[device];
  return CUDA_SUCCESS;
}

CUresult FakeCalls::CtxGetCurrent(CUcontext* context) {
  *context = f.Current();
  return CUDA_SUCCESS;
}

CUresult FakeCalls::CtxSetCurrent(CUcontext context) {
  std::vector<CUcontext>& stack = f.Thread().stack;
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::CtxPushCurrent(CUcontext context) {
  f.Thread().stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::CtxPopCurrent(CUcontext* context) {
  std::vector<CUcontext>& stack = f.Thread().stack;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult FakeCalls::ThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, f.Thread().mode);
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- modules and launches

CUresult FakeCalls::ModuleLoadData(CUmodule* module, const void* image) {
  if (f.Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (std::memcmp(image,
                  "\x7f"
                  "ELF",
                  4) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  const uintptr_t id = f.next_handle_++;
  f.modules_[id] = {f.Current(), ImageBytes(image), {}};
  *module = HandleOf<CUmodule>(id);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::ModuleUnload(CUmodule module) {
  const auto found = f.modules_.find(IdOf(module));
  if (found == f.modules_.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (found->second.context != f.Current()) return CUDA_ERROR_INVALID_CONTEXT;
  for (const uintptr_t function : found->second.functions) f.functions_.erase(function);
  f.modules_.erase(found);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::ModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const auto found = f.modules_.find(IdOf(module));
  if (found == f.modules_.end()) return CUDA_ERROR_INVALID_HANDLE;
  const uintptr_t id = f.next_handle_++;
  found->second.functions.push_back(id);
  f.functions_[id] = {IdOf(module), name, {}};
  *function = HandleOf<CUfunction>(id);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::FuncLoad(CUfunction) { return CUDA_SUCCESS; }

CUresult FakeCalls::FuncGetParamInfo(CUfunction, size_t index, size_t* offset, size_t* size) {
  if (index >= f.kernel.param_sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = 0;
  *size = f.kernel.param_sizes[index];
  return CUDA_SUCCESS;
}

CUresult FakeCalls::FuncGetAttribute(int* value, CUfunction_attribute attribute,
                                     CUfunction function) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = f.kernel.max_threads;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = f.kernel.static_shared_bytes;
      break;
    default:
      *value = f.functions_.at(IdOf(function)).attributes[attribute];
      break;
  }
  return CUDA_SUCCESS;
}

CUresult FakeCalls::FuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                     int value) {
  f.functions_.at(IdOf(function)).attributes[attribute] = value;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::OccupancyMaxActiveClusters(int* clusters, CUfunction,
                                               const CUlaunchConfig* config) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& dim = config->attrs[i].value.clusterDim;
    const int index = ClusterIndex(static_cast<int>(dim.x * dim.y * dim.z));
    if (index < 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *clusters = f.chips_.at(IdOf(f.Current()) - 0x100).resident_clusters[index];
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

CUresult FakeCalls::OccupancyMaxActiveBlocks(int* blocks, CUfunction, int, size_t) {
  *blocks = 1;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::TensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type,
                                         cuuint32_t rank, void* address, const cuuint64_t* dims,
                                         const cuuint64_t* strides, const cuuint32_t* box,
                                         const cuuint32_t*, CUtensorMapInterleave,
                                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                         CUtensorMapFloatOOBfill) {
  FakeMap out{};
  static_assert(sizeof(out) <= sizeof(*map), "the fake's fields fit into a tensor map");
  out.address = reinterpret_cast<uintptr_t>(address);
  out.rank = rank;
  out.type = static_cast<uint16_t>(type);
  out.swizzle = static_cast<uint16_t>(swizzle);
  for (cuuint32_t i = 0; i < rank; ++i) {
    out.dims[i] = dims[i];
    out.box[i] = box[i];
    if (i + 1 < rank) out.strides[i] = strides[i];
  }
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &out, sizeof(out));
  return CUDA_SUCCESS;
}

CUresult FakeCalls::TensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type,
                                          cuuint32_t rank, void* address, const cuuint64_t* dims,
                                          const cuuint64_t* strides, const int* lower,
                                          const int* upper, cuuint32_t channels, cuuint32_t pixels,
                                          const cuuint32_t* element_strides, CUtensorMapInterleave,
                                          CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                          CUtensorMapFloatOOBfill) {
  if (rank != 4) return CUDA_ERROR_INVALID_VALUE;
  FakeMap out{};
  out.address = reinterpret_cast<uintptr_t>(address);
  out.rank = rank;
  out.type = static_cast<uint16_t>(type);
  out.swizzle = static_cast<uint16_t>(swizzle);
  out.im2col = 1;
  std::copy(dims, dims + 4, out.dims);
  std::copy(strides, strides + 3, out.strides);
  out.box[0] = channels;
  out.box[1] = pixels;
  for (int i = 0; i < 2; ++i) {
    out.lower[i] = static_cast<int8_t>(lower[i]);
    out.upper[i] = static_cast<int8_t>(upper[i]);
  }
  for (int i = 0; i < 3; ++i) out.element_strides[i] = static_cast<uint8_t>(element_strides[i + 1]);
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &out, sizeof(out));
  return CUDA_SUCCESS;
}

CUresult FakeDriver::Describe(CUfunction function, void** params, FakeLaunch* launch) {
  const auto found = functions_.find(IdOf(function));
  if (found == functions_.end()) {
    violations_.push_back("launch of an unloaded module");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (modules_.at(found->second.module).context != Current()) return CUDA_ERROR_INVALID_CONTEXT;
  launch->module = found->second.module;
  launch->entry = found->second.entry;
  launch->context = Current();
  for (size_t i = 0; i < kernel.param_sizes.size(); ++i) {
    launch->params.emplace_back(static_cast<const char*>(params[i]), kernel.param_sizes[i]);
  }
  return CUDA_SUCCESS;
}

CUresult FakeCalls::LaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                                   void** extra) {
  if (extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto stream = f.streams_.find(IdOf(config->hStream));
  const bool captured = stream != f.streams_.end() && stream->second.graph != 0;
  if (!f.recording_ && !f.on_launch && !captured) return CUDA_SUCCESS;
  FakeLaunch launch;
  const CUresult described = f.Describe(function, params, &launch);
  if (described != CUDA_SUCCESS) return described;
  launch.captured = captured;
  launch.config = *config;
  launch.attributes.assign(config->attrs, config->attrs + config->numAttrs);
  launch.config.attrs = nullptr;
  if (f.recording_) f.launches_.push_back(launch);
  if (launch.captured) {
    FakeNode node{.kernel = true, .launch = std::move(launch)};
    f.AddNode(f.graphs_[stream->second.graph], std::move(node));
    return CUDA_SUCCESS;
  }
  f.clock_us_ += f.launch_us;
  return f.on_launch ? f.on_launch(launch) : CUDA_SUCCESS;
}

}  // namespace sinter
