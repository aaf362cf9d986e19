// Attention in the spellings of frameworks, of any extents.
#pragma once

#include "src/chain/chain.h"
#include "tests/support/common.h"

namespace sinter::testing {

struct AttentionForm {
  enum class Layout {
    kHeadsFirst,  // q, k, v and the result are [batch, heads, rows, head]
    kRowsFirst,   // [batch, rows, heads, head], transposed; the result [batch, rows, heads * head]
    kPacked,      // q, k, v are slices of [batch, rows, 3, heads, head]; needs keys == rows
  };
  enum class Term {
    kNone,
    kOfHeads,       // [heads, rows, keys] of the element type, added
    kOfKeys,        // f32 [batch, 1, 1, keys], added
    kMask,          // pred [batch, 1, rows, keys]: -infinity where it is false
    kHiddenKeys,    // pred [batch, 1, 1, keys]: the least f32 where it is true
    kWindows,       // kOfHeads, and f32 [batch / 2, rows, keys] for every second batch
    kCausal,        // by comparing indices
    kCausalBehind,  // the same, with rows that see keys - rows more
    kCapped,        // 30 tanh(s / 30)
    kAlibi,         // f32 slopes [heads, 1, 1] times the distance in keys, added
    kBand,          // kCapped, then kAlibi, then keys up to 20 before and none after
    kGatedCap,      // times bf16 [heads, rows, 1], then kCapped, then kHiddenKeys
  };
  int64_t batch = 1, heads = 1, rows = 1, keys = 1, head = 64, value_head = 0;  // 0: head
  DType dtype = DType::kBF16;
  Layout layout = Layout::kHeadsFirst;
  Term term = Term::kNone;
  double scale = 0.125;
  int64_t group = 1;         // heads that share keys and values
  bool scale_first = false;  // q is scaled, and rounded, before the product
  bool rounds = false;       // scores are rounded
  bool divides = false;      // by 1 / scale
  bool batched = false;      // products of [batch * heads, rows, head], as decompositions have them
  bool of_m = false;         // the batch is M; `batch` is left alone
  bool wide = false;         // an f32 result
  bool zero_unseen = false;  // a row that sees no key is 0

  std::string Name() const;
};

Chain MakeAttention(const AttentionForm& form);

// "2x12 128x64 64 causal f16 value32 group4 of_m": batch x heads, rows x keys, head, then layouts,
// terms and flags by their names. Another text ends the test.
AttentionForm ReadAttentionForm(const std::string& text);

// The forms of a section of attention_forms.txt.
std::vector<AttentionForm> AttentionForms(const std::string& section = "all");

// An encoder's layer with attention inside: projection of q, k and v, attention, projection with
// residual, layer norm, and a two-layer perceptron with residual. [batch, rows, heads * head].
Chain MakeEncoderLayer(int64_t batch, int64_t rows, int64_t heads, int64_t head);

}  // namespace sinter::testing
