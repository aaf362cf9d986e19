#include "src/plan/attention_family.h"
#include "src/plan/collective_family.h"
#include "src/plan/family.h"
#include "src/plan/grouped_family.h"
#include "src/plan/product_family.h"
#include "src/plan/stitch_family.h"

namespace sinter {

const KernelFamily& ProductFamily() {
  static const ProductKernels family;
  return family;
}

const KernelFamily& StitchFamily() {
  static const StitchKernels family;
  return family;
}

const KernelFamily& GroupedFamily() {
  static const GroupedKernels family;
  return family;
}

const KernelFamily& AttentionFamily() {
  static const AttentionKernels family;
  return family;
}

const KernelFamily& CollectiveFamily() {
  static const CollectiveKernels family;
  return family;
}

const std::vector<const KernelFamily*>& Families() {
  static const std::vector<const KernelFamily*>* const families =
      new std::vector<const KernelFamily*>{
          &ProductFamily(),   &StitchFamily(),     &GroupedFamily(),
          &AttentionFamily(), &CollectiveFamily(),
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
