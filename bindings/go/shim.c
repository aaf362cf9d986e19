#include "shim.h"

#include "_cgo_export.h"

void sinter_go_use_log(sinter_context_options* options, uintptr_t id) {
  options->log = sinterGoLog;
  options->log_user_data = id;
}

void sinter_go_use_progress(sinter_prepare_options* options, uintptr_t id) {
  options->progress = sinterGoProgress;
  options->progress_user_data = id;
}
