/* A gated FFN from description to execution, in C99. With a GPU it runs and times the plan; without
 * one it prepares for the built-in h200 model and prints the plan. Build: cc -std=c99 example.c
 * -lsinter */
#include <stdio.h>
#include <stdlib.h>

#include "sinter/sinter_experimental.h" /* device buffers and timing; sinter.h is enough for the rest */

enum { M = 64, N = 1024, K = 512, L = 512, BUFFERS = 5 };

/* Prints why a call failed and ends the program. */
static void check(sinter_status status, sinter_error* error) {
  if (status == SINTER_OK) return;
  fprintf(stderr, "%s: %s\n", sinter_status_name(status), sinter_error_get_message(error));
  sinter_error_release(error);
  exit(1);
}

static sinter_value add_input(sinter_chain* chain, int64_t rows, int64_t columns, uint32_t flags) {
  const int64_t dims[2] = {rows, columns};
  sinter_input_options options = SINTER_INIT(sinter_input_options);
  sinter_value value = SINTER_NO_VALUE;
  sinter_error* error = NULL;
  options.flags = flags;
  check(sinter_chain_add_input(chain, SINTER_DTYPE_BF16, 2, dims, &options, &value, &error), error);
  return value;
}

/* y = (silu(a Wg) * (a Wu)) Wd, the weights as nn.Linear stores them: [out, in]. */
static sinter_chain* describe(void) {
  sinter_chain* chain = NULL;
  sinter_error* error = NULL;
  sinter_gated_ffn_options options = SINTER_INIT(sinter_gated_ffn_options);
  sinter_value a, gate, up, down, y = SINTER_NO_VALUE;
  options.activation = SINTER_ACTIVATION_SILU;
  check(sinter_chain_create(&chain, &error), error);
  a = add_input(chain, SINTER_DIM_M, K, 0);
  gate = add_input(chain, N, K, SINTER_INPUT_CONSTANT);
  up = add_input(chain, N, K, SINTER_INPUT_CONSTANT);
  down = add_input(chain, L, N, SINTER_INPUT_CONSTANT);
  check(sinter_chain_add_gated_ffn(chain, a, gate, up, down, &options, &y, &error), error);
  check(sinter_chain_add_output(chain, y, NULL, &error), error);
  check(sinter_chain_finish(chain, &error), error);
  return chain;
}

/* The first GPU, or without one the built-in model of an H200. */
static sinter_context* open_context(void) {
  sinter_context* context = NULL;
  sinter_error* error = NULL;
  sinter_context_options options = SINTER_INIT(sinter_context_options);
  if (sinter_context_create(&options, &context, &error) == SINTER_OK) return context;
  printf("no GPU: %s\n", sinter_error_get_message(error));
  sinter_error_release(error);
  error = NULL;
  options.target = "h200";
  check(sinter_context_create(&options, &context, &error), error);
  return context;
}

static void explain(const sinter_plan* plan) {
  size_t size = 0;
  sinter_error* error = NULL;
  char* text;
  check(sinter_plan_explain(plan, 0, NULL, &size, &error), error);
  text = malloc(size);
  if (text == NULL) exit(1);
  check(sinter_plan_explain(plan, size, text, NULL, &error), error);
  printf("%s", text);
  free(text);
}

/* Binds zeroed buffers and launches; a server would bind its own buffers and launch on its own
 * stream. */
static void run(sinter_context* context, const sinter_chain* chain, const sinter_plan* plan) {
  const int64_t m = M;
  const uint64_t workspace_bytes = sinter_plan_get_workspace_size(plan);
  sinter_device_ptr buffers[BUFFERS], workspace = 0;
  uint64_t sizes[BUFFERS];
  sinter_binding* binding = NULL;
  sinter_error* error = NULL;
  double us = 0;
  uint32_t i;
  for (i = 0; i < BUFFERS; ++i) {
    sinter_tensor_info info = SINTER_INIT(sinter_tensor_info);
    check(sinter_chain_get_buffer(chain, i, m, &info, &error), error);
    sizes[i] = info.bytes;
    check(sinter_x_device_alloc(context, sizes[i], &buffers[i], &error), error);
    check(sinter_x_device_fill(context, buffers[i], sizes[i], 0, &error), error);
  }
  if (workspace_bytes > 0) {
    check(sinter_x_device_alloc(context, workspace_bytes, &workspace, &error), error);
    check(sinter_x_device_fill(context, workspace, workspace_bytes, 0, &error), error);
  }
  check(sinter_plan_bind(plan, BUFFERS, buffers, workspace, &binding, &error), error);
  check(sinter_x_time(context, 1, (const sinter_binding* const*)&binding, 1, &m, NULL, &us, &error),
        error);
  printf("%.2f us per launch\n", us);
  sinter_binding_release(binding);
  sinter_x_device_free(context, workspace, workspace_bytes);
  for (i = 0; i < BUFFERS; ++i) sinter_x_device_free(context, buffers[i], sizes[i]);
}

int main(void) {
  sinter_context* context = open_context();
  sinter_chain* chain = describe();
  sinter_plan* plan = NULL;
  sinter_error* error = NULL;
  sinter_status status = sinter_prepare(context, chain, M, NULL, &plan, &error);
  if (status == SINTER_UNAVAILABLE) { /* a cache miss, and no run-time compiler to fill it */
    fprintf(stderr, "%s\n", sinter_error_get_message(error));
    return 77;
  }
  check(status, error);
  explain(plan);
  if (sinter_context_has_device(context)) run(context, chain, plan);
  sinter_plan_release(plan);
  sinter_chain_release(chain);
  sinter_context_release(context);
  return 0;
}
