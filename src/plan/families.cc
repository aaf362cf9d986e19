#include "src/plan/attention_family.h"
#include "src/plan/collective_family.h"
#include "src/plan/family.h"
#include "src/plan/four_bit_family.h"
#include "src/plan/grouped_family.h"
#include "src/plan/mma_family.h"
#include "src/plan/product_family.h"
#include "src/plan/stitch_family.h"

namespace sinter {
namespace {

template <typename Kernels>
const KernelFamily& Static() {
  static const Kernels family;
  return family;
}

}  // namespace

const KernelFamily& ProductFamily() { return Static<ProductKernels>(); }
const KernelFamily& StitchFamily() { return Static<StitchKernels>(); }
const KernelFamily& GroupedFamily() { return Static<GroupedKernels>(); }
const KernelFamily& AttentionFamily() { return Static<AttentionKernels>(); }
const KernelFamily& CollectiveFamily() { return Static<CollectiveKernels>(); }
const KernelFamily& FourBitFamily() { return Static<FourBitKernels>(); }
const KernelFamily& MmaFamily() { return Static<MmaKernels>(); }

const std::vector<const KernelFamily*>& Families() {
  static const std::vector<const KernelFamily*>* const families =
      new std::vector<const KernelFamily*>{
          &ProductFamily(),    &StitchFamily(),  &GroupedFamily(), &AttentionFamily(),
          &CollectiveFamily(), &FourBitFamily(), &MmaFamily(),
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
