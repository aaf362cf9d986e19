#include "shim.h"

#include "_cgo_export.h"

sinter_status sinter_go_on_ready(const void* pending, uintptr_t id, sinter_error** error) {
  return sinter_pending_on_ready(pending, sinterGoReady, id, error);
}

void sinter_go_use_log(sinter_context_options* options, uintptr_t id) {
  options->log = sinterGoLog;
  options->log_user_data = id;
}

void sinter_go_use_progress(sinter_prepare_options* options, uintptr_t id) {
  options->progress = sinterGoProgress;
  options->progress_user_data = id;
}

void sinter_go_use_exchange(sinter_group_options* options, uintptr_t id) {
  options->exchange = sinterGoExchange;
  options->user_data = id;
}
