#include "src/plan/family.h"

namespace sinter {

const std::vector<const KernelFamily*>& Families() {
  static const std::vector<const KernelFamily*>* const families =
      new std::vector<const KernelFamily*>{
          &ProductFamily(),
          &StitchFamily(),
      };
  return *families;
}

const KernelFamily* FamilyOfNumber(uint32_t number) {
  for (const KernelFamily* family : Families()) {
    if (family->number() == number) return family;
  }
  return nullptr;
}

absl::string_view NameOf(const KernelFamily* family) { return family->name(); }

}  // namespace sinter
