// StagedText: inputs that a block reads for all its units and leaves in shared memory (staging.h).
#ifndef SINTER_SRC_STITCH_CODE_STAGED_TEXT_H_
#define SINTER_SRC_STITCH_CODE_STAGED_TEXT_H_

#include <map>
#include <string>
#include <vector>

#include "src/stitch/code.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/staging.h"

namespace sinter {

class StagedText {
 public:
  StagedText(const StitchCode& code, const StitchProgram& program);

  // Tells `emitter` where the passes of a unit find staged inputs.
  void Publish(StitchEmitter& emitter) const;
  // What a block does before its units: reads the inputs at `from`, the addresses in memory.
  std::string Text(const std::map<ValueId, std::string>& from) const;

 private:
  std::string First(const StagedPlace& place) const;

  const StitchCode& code_;
  const std::vector<StagedPlace> places_;
  const int64_t offset_;  // of all, in the block's shared memory
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_STAGED_TEXT_H_
