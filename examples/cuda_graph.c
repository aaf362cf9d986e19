/* A gated FFN in a CUDA graph, from allocation to a checked result, with the CUDA driver API: what
 * an inference server does for each layer. Needs a Hopper GPU; exits 77 without one. Build, with
 * the toolkit's cuda.h: cc -std=c99 cuda_graph.c -lsinter -lcuda -lm */
#include <cuda.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/sinter.h"

enum { M = 64, N = 1024, K = 512, L = 512, REPLAYS = 20 };
enum {
  X,
  GATE,
  UP,
  DOWN,
  Y,
  BUFFERS
}; /* the chain's inputs in the order of their adds, then its output */
enum { SKIPPED = 77 };

/* Ends the program with the reason that a call of Sinter failed for. */
static void check(sinter_status status, sinter_error* error) {
  if (status == SINTER_OK) return;
  fprintf(stderr, "%s: %s\n", sinter_status_name(status), sinter_error_get_message(error));
  sinter_error_release(error);
  exit(1);
}

/* The same for a call of CUDA. */
static void check_cuda(CUresult result, const char* call) {
  const char* text = NULL;
  if (result == CUDA_SUCCESS) return;
  cuGetErrorString(result, &text);
  fprintf(stderr, "%s: %s\n", call, text != NULL ? text : "unknown error");
  exit(1);
}
#define CUDA(call) check_cuda(call, #call)

/* ---------------------------------------------------------------- The chain */

static sinter_value add_input(sinter_chain* chain, int64_t rows, int64_t columns, uint32_t flags) {
  const int64_t dims[2] = {rows, columns};
  sinter_input_options options = SINTER_INIT(sinter_input_options);
  sinter_value value = SINTER_NO_VALUE;
  sinter_error* error = NULL;
  options.flags = flags;
  check(sinter_chain_add_input(chain, SINTER_DTYPE_BF16, 2, dims, &options, &value, &error), error);
  return value;
}

/* y = (silu(x Wg) * (x Wu)) Wd, the weights as nn.Linear stores them: [out, in]. */
static sinter_chain* describe(void) {
  sinter_chain* chain = NULL;
  sinter_error* error = NULL;
  sinter_gated_ffn_options options = SINTER_INIT(sinter_gated_ffn_options);
  sinter_value x, gate, up, down, y = SINTER_NO_VALUE;
  options.activation = SINTER_ACTIVATION_SILU;
  check(sinter_chain_create(&chain, &error), error);
  x = add_input(chain, SINTER_DIM_M, K, 0);
  gate = add_input(chain, N, K, SINTER_INPUT_CONSTANT);
  up = add_input(chain, N, K, SINTER_INPUT_CONSTANT);
  down = add_input(chain, L, N, SINTER_INPUT_CONSTANT);
  check(sinter_chain_add_gated_ffn(chain, x, gate, up, down, &options, &y, &error), error);
  check(sinter_chain_add_output(chain, y, NULL, &error), error);
  check(sinter_chain_finish(chain, &error), error);
  return chain;
}

/* ---------------------------------------------------------------- Data on the host */

static float from_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof(value));
  return value;
}

/* Numbers in (-scale, scale), the same for the same seed. */
static uint16_t* random_bf16(size_t count, float scale, uint32_t seed) {
  uint16_t* values = malloc(count * sizeof(*values));
  size_t i;
  if (values == NULL) exit(1);
  for (i = 0; i < count; ++i) {
    float value;
    uint32_t bits;
    seed = seed * 1664525u + 1013904223u;
    value = scale * ((float)(seed >> 8) / 8388608.0f - 1.0f);
    memcpy(&bits, &value, sizeof(bits));
    values[i] = (uint16_t)(bits >> 16);
  }
  return values;
}

static double dot(const uint16_t* a, const uint16_t* b, int count) {
  double sum = 0;
  int i;
  for (i = 0; i < count; ++i) sum += (double)from_bf16(a[i]) * from_bf16(b[i]);
  return sum;
}

/* The relative error of rows of y, ||y - reference|| / ||reference||. */
static double error_of(uint16_t* const* host, int rows) {
  static double hidden[N];
  double wrong = 0, norm = 0;
  int m, i;
  for (m = 0; m < rows; ++m) {
    const uint16_t* x = host[X] + (size_t)m * K;
    for (i = 0; i < N; ++i) {
      const double gate = dot(x, host[GATE] + (size_t)i * K, K);
      hidden[i] = gate / (1 + exp(-gate)) * dot(x, host[UP] + (size_t)i * K, K);
    }
    for (i = 0; i < L; ++i) {
      const uint16_t* down = host[DOWN] + (size_t)i * N;
      double want = 0, off;
      int j;
      for (j = 0; j < N; ++j) want += hidden[j] * from_bf16(down[j]);
      off = from_bf16(host[Y][(size_t)m * L + i]) - want;
      wrong += off * off;
      norm += want * want;
    }
  }
  return sqrt(wrong / norm);
}

/* ---------------------------------------------------------------- The device */

/* Makes device 0's primary context current. */
static CUdevice open_device(void) {
  CUdevice device;
  CUcontext context;
  const CUresult result = cuInit(0);
  if (result != CUDA_SUCCESS) {
    printf("skipped: no GPU (cuInit gave %d)\n", (int)result);
    exit(SKIPPED);
  }
  CUDA(cuDeviceGet(&device, 0));
  CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CUDA(cuCtxSetCurrent(context));
  return device;
}

static sinter_context* open_context(void) {
  sinter_context* context = NULL;
  sinter_error* error = NULL;
  const sinter_status status = sinter_context_create(NULL, &context, &error);
  if (status == SINTER_FAILED_PRECONDITION) { /* a GPU, but no Hopper */
    printf("skipped: %s\n", sinter_error_get_message(error));
    exit(SKIPPED);
  }
  check(status, error);
  return context;
}

/* Captures one launch of the plan. The graph keeps what it needs of the plan alive. */
static CUgraphExec capture(const sinter_plan* plan, const sinter_device_ptr* buffers,
                           sinter_device_ptr workspace, CUstream stream) {
  const int64_t m = M;
  sinter_binding* binding = NULL;
  sinter_error* error = NULL;
  CUgraph graph;
  CUgraphExec replayable;
  check(sinter_plan_bind(plan, BUFFERS, buffers, workspace, &binding, &error), error);
  CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  check(sinter_binding_launch(binding, stream, 1, &m, 0, &error), error);
  CUDA(cuStreamEndCapture(stream, &graph));
  CUDA(cuGraphInstantiate(&replayable, graph, 0));
  CUDA(cuGraphDestroy(graph));
  sinter_binding_release(binding);
  return replayable;
}

int main(void) {
  const CUdevice device = open_device();
  sinter_context* context = open_context();
  sinter_chain* chain = describe();
  sinter_plan* plan = NULL;
  sinter_error* error = NULL;
  const size_t counts[BUFFERS] = {M * K, N * K, N * K, L * N, M * L};
  uint16_t* host[BUFFERS];
  sinter_device_ptr buffers[BUFFERS], workspace = 0;
  uint64_t workspace_bytes;
  CUstream stream;
  CUgraphExec graph;
  double relative;
  int i;

  check(sinter_prepare(context, chain, M, NULL, &plan, &error),
        error); /* cache, or search and compile */

  CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (i = 0; i < BUFFERS; ++i) {
    sinter_tensor_info info = SINTER_INIT(sinter_tensor_info);
    CUdeviceptr address;
    check(sinter_chain_get_buffer(chain, (uint32_t)i, M, &info, &error), error);
    host[i] = random_bf16(counts[i], i == X ? 1.0f : 0.05f, (uint32_t)i + 1);
    CUDA(cuMemAlloc(&address, info.bytes)); /* aligned to 256 bytes, Sinter needs 16 */
    CUDA(cuMemcpyHtoDAsync(address, host[i], info.bytes, stream));
    buffers[i] = address;
  }
  workspace_bytes = sinter_plan_get_workspace_size(plan);
  if (workspace_bytes > 0) {
    CUdeviceptr address;
    CUDA(cuMemAlloc(&address, workspace_bytes));
    workspace = address;
  }
  check(sinter_plan_init_workspace(plan, workspace, workspace_bytes, stream, &error), error);
  graph = capture(plan, buffers, workspace, stream);
  sinter_plan_release(plan);

  /* Replays read what the buffers hold by then: other activations, no new capture. */
  CUDA(cuStreamSynchronize(stream)); /* the first activations are copied */
  free(host[X]);
  host[X] = random_bf16(counts[X], 1.0f, 99);
  CUDA(cuMemcpyHtoDAsync(buffers[X], host[X], counts[X] * sizeof(uint16_t), stream));
  for (i = 0; i < REPLAYS; ++i) CUDA(cuGraphLaunch(graph, stream));
  CUDA(cuMemcpyDtoHAsync(host[Y], buffers[Y], counts[Y] * sizeof(uint16_t), stream));
  CUDA(cuStreamSynchronize(stream));
  relative = error_of(host, M);
  printf("%d replays, relative error %.1e\n", REPLAYS, relative);

  CUDA(cuGraphExecDestroy(graph));
  CUDA(cuStreamDestroy(stream));
  for (i = 0; i < BUFFERS; ++i) {
    CUDA(cuMemFree(buffers[i]));
    free(host[i]);
  }
  if (workspace != 0) CUDA(cuMemFree(workspace));
  sinter_chain_release(chain);
  sinter_context_release(context);
  CUDA(cuDevicePrimaryCtxRelease(device));
  return relative <= 5e-3 ? 0 : 1; /* false for NaN too */
}
