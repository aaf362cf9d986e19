#include "src/chain/ffn_view.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status NotFfn(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not an ffn: ", why));
}

absl::Status CheckSteps(const ProductsView& products) {
  if (products.size() > 2) {
    return NotFfn(absl::StrCat(products.size(), " products, must be 1 or 2"));
  }
  if (products.size() < 2) return absl::OkStatus();
  if (products.steps[0].has_residual()) return NotFfn("the first product has a residual");
  const ProductStep& second = products.steps[1];
  if (second.gated) return NotFfn("the second product is gated");
  if (second.act == Activation::kIdentity) return absl::OkStatus();
  return NotFfn(absl::StrCat("the second product's activation is ", NameOf(second.act),
                             ", must be identity"));
}

void TakeResidual(const ProductStep& last, FfnView* view) {
  view->residual = last.residual;
  view->ld_residual = last.ld_residual;
  view->rounds_e = last.rounds_sum;
}

void TakeFirst(const ProductStep& step, FfnView* view) {
  view->gated = step.gated;
  view->act = step.act;
  view->n = step.n;
  view->k = step.k;
  view->w1 = step.w;
  view->w_up = step.w_up;
  view->b1 = step.b;
  view->b_up = step.b_up;
  view->bias1 = step.bias();
  view->ld_w1 = step.ld_w;
  view->ld_w_up = step.ld_w_up;
  view->factor1 = step.factor;
  view->factor1_dtype = step.factor_dtype;
  view->scale1 = step.scale;
}

void TakeSecond(const ProductStep& step, FfnView* view) {
  view->l = step.n;
  view->w2 = step.w;
  view->b2 = step.b;
  view->bias2 = step.bias();
  view->ld_w2 = step.ld_w;
  view->factor2 = step.factor;
  view->factor2_dtype = step.factor_dtype;
  view->scale2 = step.scale;
}

}  // namespace

absl::StatusOr<FfnView> ViewAsFfn(const Chain& chain) {
  const absl::StatusOr<ProductsView> products = ViewAsProducts(chain);
  if (!products.ok()) return NotFfn(products.status().message());
  SINTER_RETURN_IF_ERROR(CheckSteps(*products));
  FfnView view;
  view.products = products->size();
  view.m = products->m;
  view.layout = products->layout;
  view.dtype = products->dtype;
  view.a = products->a;
  view.output = products->output;
  view.ld_a = products->ld_a;
  view.ld_out = products->ld_out;
  view.contiguous = products->contiguous;
  view.weights_constant = products->weights_constant;
  TakeFirst(products->steps[0], &view);
  TakeResidual(products->steps.back(), &view);
  if (view.products == 2) {
    view.rounds_c = products->steps[0].rounds;
    TakeSecond(products->steps[1], &view);
  }
  return view;
}

ProductsView ProductsOf(const FfnView& v) {
  ProductsView products;
  products.m = v.m;
  products.layout = v.layout;
  products.dtype = v.dtype;
  products.a = v.a;
  products.output = v.output;
  products.ld_a = v.ld_a;
  products.ld_out = v.ld_out;
  products.contiguous = v.contiguous;
  products.weights_constant = v.weights_constant;
  products.steps.push_back({v.gated, v.act, v.n, v.k, v.w1, v.w_up, v.b1, v.b_up, v.ld_w1,
                            v.ld_w_up, v.products == 1 || v.rounds_c});
  if (v.products == 2) {
    products.steps.push_back(
        {false, Activation::kIdentity, v.l, v.n, v.w2, -1, v.b2, -1, v.ld_w2, 0, true});
  }
  ProductStep& first = products.steps.front();
  first.factor = v.factor1;
  first.factor_dtype = v.factor1_dtype;
  first.scale = v.scale1;
  ProductStep& last = products.steps.back();
  if (v.products == 2) {
    last.factor = v.factor2;
    last.factor_dtype = v.factor2_dtype;
    last.scale = v.scale2;
  }
  last.residual = v.residual;
  last.ld_residual = v.ld_residual;
  last.rounds_sum = v.rounds_e;
  return products;
}

std::string ToString(const FfnView& v) {
  const absl::string_view kind =
      v.products == 2 ? (v.gated ? "gated_ffn" : "gemm_chain") : (v.gated ? "gate_up" : "matmul");
  std::string text = absl::StrCat(kind, " m=", ToString(v.m), " n=", v.n, " k=", v.k);
  if (v.products == 2) absl::StrAppend(&text, " l=", v.l);
  absl::StrAppend(&text, " act=", NameOf(v.act), " layout=", NameOf(v.layout),
                  " dtype=", NameOf(v.dtype));
  if (v.bias1) absl::StrAppend(&text, " bias1=1");
  if (v.bias2) absl::StrAppend(&text, " bias2=1");
  if (v.scale1 != 1) absl::StrAppend(&text, " scale1=", v.scale1);
  if (v.factor1 >= 0) absl::StrAppend(&text, " factor1=1");
  if (v.scale2 != 1) absl::StrAppend(&text, " scale2=", v.scale2);
  if (v.factor2 >= 0) absl::StrAppend(&text, " factor2=1");
  if (v.residual >= 0) absl::StrAppend(&text, " + residual");
  return text;
}

}  // namespace sinter
