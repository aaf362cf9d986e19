#include "src/chain/composites_next_token.h"

#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/chain/expander.h"

namespace sinter {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLowest = -3e38;      // finite in f32: what stands for a maximum of -inf
constexpr double kLeast = 1e-30;       // stands for 0 where a number divides or bounds
constexpr double kMost = 1e30;         // of temperatures
constexpr int64_t kLongRow = 1 << 13;  // elements; longer rows are taken by tiles
constexpr int64_t kTile = 128;         // elements of a tile

class TokenExpander : public Expander {
 public:
  using Expander::Expander;

  bool CheckLogits(ValueId logits) {
    if (!CheckFloat("logits", logits)) return false;
    const TensorType& type = Type(logits);
    if (type.rank() == 0 || type.dims.back().symbolic) {
      Fail(InvalidField("logits", ToString(type), "[..,v] with a constant last dimension"));
      return false;
    }
    row_ = type.dims.back().value;
    column_ = type.dims;
    column_.back() = Dim::Constant(1);
    return true;
  }
  void CheckRandom(ValueId logits, ValueId seed, ValueId offset) {
    if (!Check("seed", seed) || !Check("offset", offset)) return;
    Fail(InferRandom(Type(logits).dims, Type(seed), Type(offset)).status());
  }
  void CheckCount(int64_t count) {
    if (ok() && (count < 0 || count > kMostTokenCount || count > row_)) {
      const bool few = row_ < kMostTokenCount;
      Fail(InvalidField(
          "count", count, absl::StrCat("in [0, ", few ? row_ : kMostTokenCount, "]"),
          few ? ": a row has no more elements" : ": 0 draws from the whole row, by temperature"));
    }
  }
  // `field` bounds which of the largest logits are drawn from, so there must be a count of them.
  void CheckCounted(absl::string_view field, ValueId id, int64_t count) {
    if (!ok() || id == kNoValue || count > 0) return;
    Fail(InvalidField("count", 0,
                      absl::StrCat("in [1, ", kMostTokenCount, "] if ", field, " is given"),
                      ": a whole row is not sorted; give a count, or leave out ", field));
  }
  // A number of each row as [.., 1], or one number; kNoValue stays.
  ValueId OfRows(absl::string_view field, ValueId id, bool integer) {
    if (!ok() || id == kNoValue) return kNoValue;
    if (!(integer ? Check(field, id) : CheckFloat(field, id))) return kNoValue;
    const TensorType type = Type(id);
    if (integer && type.dtype != DType::kS32) {
      Fail(InvalidField(field, ToString(type), "s32", ": cast it"));
      return kNoValue;
    }
    const std::vector<Dim> rows(column_.begin(), column_.end() - 1);
    if (type.rank() == 0) return Widened(id, integer);
    if (type.dims != rows) {
      Fail(InvalidField(field, ToString(type),
                        absl::StrCat("one number, or ", ToString(absl::MakeConstSpan(rows)),
                                     ": one for each row of logits")));
      return kNoValue;
    }
    return Reshape(Widened(id, integer), column_);
  }

  ValueId Number(double value, DType dtype) {
    return ok() ? Take(builder().Scalar(value, dtype)) : kNoValue;
  }
  // x[.., ids[.., t]].
  ValueId Taken(ValueId x, ValueId ids) {
    return ok() ? Take(builder().Gather(x, ids, -1)) : kNoValue;
  }
  ValueId TopK(ValueId x, int64_t count) {
    return ok() ? Take(builder().TopK(x, count)) : kNoValue;
  }
  // The place along the last axis.
  ValueId Places(const std::vector<Dim>& dims) {
    if (!ok()) return kNoValue;
    return Take(builder().Iota(dims, static_cast<int>(dims.size()) - 1, DType::kS32));
  }
  ValueId Exp(ValueId x) { return Unary(UnaryKind::kExp, x); }
  // x as spread over the columns of `like`, unless it is one number, which spreads by itself.
  ValueId Over(ValueId x, ValueId like) {
    return !ok() || Type(x).rank() == 0 ? x : Spread(x, like);
  }

  // -log(-log(1 - u)) of the uniform u of each place: finite, because u is 2^-32 to 1 - 2^-24.
  // Small u, which have the most digits, give the largest numbers, and these decide.
  ValueId Gumbel(ValueId uniform) {
    const ValueId inside = Add(uniform, Scalar(0x1p-32));
    const ValueId power =
        Unary(UnaryKind::kNeg, Unary(UnaryKind::kLog1p, Unary(UnaryKind::kNeg, inside)));
    return Unary(UnaryKind::kNeg, Unary(UnaryKind::kLog, power));
  }
  // The temperature as a factor of noise: 0 unless it is more than 0.
  ValueId Warmth(ValueId temperature) {
    if (temperature == kNoValue) return kNoValue;
    const ValueId most = Binary(BinaryKind::kMin, temperature, Scalar(kMost)), none = Scalar(0);
    return Where(Compare(CompareKind::kGt, temperature, none), most, none);
  }
  // Logits, or what they are less their row's largest, plus the noise of their places.
  ValueId Noisy(ValueId logits, ValueId noise, ValueId warmth) {
    return Add(logits, warmth == kNoValue ? noise : Mul(noise, Over(warmth, logits)));
  }
  // Probabilities as multiples of the first one's.
  ValueId Shares(ValueId below, ValueId warmth) {
    if (warmth == kNoValue) return Exp(below);
    const ValueId divisor = Binary(BinaryKind::kMax, warmth, Scalar(kLeast));
    return Exp(Binary(BinaryKind::kDiv, below, Over(divisor, below)));
  }
  // Whether min_p drops an element: the first has share 1, and stays.
  ValueId DroppedByMinP(ValueId shares, ValueId min_p) {
    const ValueId least = Binary(BinaryKind::kMin, min_p, Scalar(1));
    return Compare(CompareKind::kLt, shares, Over(least, shares));
  }
  ValueId DroppedByK(ValueId ids, ValueId k, int64_t count) {
    const ValueId all = Number(static_cast<double>(count), DType::kS32);
    const ValueId own = Where(Compare(CompareKind::kLt, k, Number(1, DType::kS32)), all, k);
    const ValueId number = ok() ? Places(Type(ids).dims) : kNoValue;
    return Compare(CompareKind::kGe, number, Over(own, number));
  }
  // Whether those before an element reach top_p of the sum of shares, of falling shares.
  ValueId DroppedByTopP(ValueId shares, ValueId top_p, int64_t count) {
    const ValueId sums = ok() ? Take(builder().Scan(ReduceKind::kSum, shares)) : kNoValue;
    const ValueId before = Sub(sums, shares), total = SliceLast(sums, count - 1, 1);
    const ValueId above = Binary(BinaryKind::kMax, top_p, Scalar(kLeast));
    const ValueId all = Scalar(kInf);
    const ValueId bound = Where(Compare(CompareKind::kGe, top_p, Scalar(1)), all, above);
    return Compare(CompareKind::kGe, before, Spread(Mul(total, bound), before));
  }
  ValueId Either(ValueId a, ValueId b) { return a == kNoValue ? b : Binary(BinaryKind::kOr, a, b); }
  ValueId Without(ValueId x, ValueId dropped, double value) {
    return dropped == kNoValue ? x : Where(dropped, Scalar(value), x);
  }

  // Where the `count` largest of each row are, falling; of equal ones the lower place first.
  //
  // A tile of a long row holds one of them only if the tile's own largest is among the `count`
  // largest of tiles. These tiles are put in the order of their places, which equal numbers keep.
  ValueId Largest(ValueId x, int64_t count) {
    if (!InTiles()) return TopK(x, count);
    const ValueId tiles = Tiles(x);
    const ValueId most = Reshape(Statistic(ReduceKind::kMax, tiles, Axis(tiles)), TileDims());
    const ValueId best = TopK(most, count);
    const ValueId order = TopK(Sub(Number(-1, DType::kS32), best), count);
    const ValueId chosen = Taken(best, order);
    const ValueId start = Mul(chosen, Number(kTile, DType::kS32));
    std::vector<Dim> dims = column_;
    dims.back() = Dim::Constant(count);
    dims.push_back(Dim::Constant(1));
    const ValueId column = Reshape(start, dims);
    dims.back() = Dim::Constant(kTile);
    const ValueId number = Places(dims);
    const ValueId places = Add(Spread(column, number), number);
    dims.pop_back();
    dims.back() = Dim::Constant(count * kTile);
    const ValueId flat = Reshape(places, dims);
    return Taken(flat, TopK(Taken(Padded(x), flat), count));
  }
  // log(exp(best) / sum(exp(x))) of x, of which `best` [.., 1] is an element.
  ValueId LogProbability(ValueId x, ValueId best) {
    const ValueId parts = InTiles() ? Tiles(x) : x;
    if (!ok()) return kNoValue;
    const ValueId lowest = Scalar(kLowest);
    const ValueId most =
        Binary(BinaryKind::kMax, Widen(Statistic(ReduceKind::kMax, parts, Axis(parts))), lowest);
    const ValueId wide = Widen(parts);
    const ValueId sums =
        Statistic(ReduceKind::kSum, Exp(Sub(wide, Spread(most, wide))), Axis(parts));
    if (!InTiles()) return Sub(Sub(best, most), Unary(UnaryKind::kLog, sums));
    const ValueId mosts = Reshape(most, TileDims());
    const ValueId all = Statistic(ReduceKind::kMax, mosts, Axis(mosts));
    const ValueId weights = Exp(Sub(mosts, Spread(all, mosts)));
    const ValueId sum =
        Statistic(ReduceKind::kSum, Mul(Reshape(sums, TileDims()), weights), Axis(mosts));
    return Sub(Sub(best, all), Unary(UnaryKind::kLog, sum));
  }
  // [.., 1] as the leading dims.
  ValueId Rows(ValueId column) {
    return Reshape(column, std::vector<Dim>(column_.begin(), column_.end() - 1));
  }

 private:
  ValueId Widened(ValueId x, bool integer) { return integer ? x : Widen(x); }
  int Axis(ValueId x) const { return ok() ? Type(x).rank() - 1 : 0; }
  bool InTiles() const { return row_ > kLongRow && static_cast<int>(column_.size()) < kMaxRank; }
  int64_t TileCount() const { return (row_ + kTile - 1) / kTile; }
  std::vector<Dim> TileDims() const {
    std::vector<Dim> dims = column_;
    dims.back() = Dim::Constant(TileCount());
    return dims;
  }
  // Fills up the last tile of each row with -inf.
  ValueId Padded(ValueId x) {
    const int64_t rest = TileCount() * kTile - row_;
    if (!ok() || rest == 0) return x;
    std::vector<Dim> dims = Type(x).dims;
    dims.back() = Dim::Constant(rest);
    const ValueId fill = Take(builder().Broadcast(Number(-kInf, Type(x).dtype), dims));
    return ok() ? Take(builder().Concat({x, fill}, Axis(x))) : kNoValue;
  }
  // [.., tiles, kTile].
  ValueId Tiles(ValueId x) {
    std::vector<Dim> dims = TileDims();
    dims.push_back(Dim::Constant(kTile));
    return Reshape(Padded(x), dims);
  }

  int64_t row_ = 0;
  std::vector<Dim> column_;  // the dims of logits, with 1 for v
};

// Where each row's token is, and its logit as f32, both [.., 1].
struct Draw {
  ValueId place = kNoValue, best = kNoValue;
};

struct RowNumbers {
  ValueId warmth = kNoValue, k = kNoValue, top_p = kNoValue, min_p = kNoValue;
};

ValueId Uniform(TokenExpander& e, const NextTokenOperands& in) {
  if (!e.ok()) return kNoValue;
  const std::vector<Dim> dims = e.Type(in.logits).dims;
  return e.Take(e.builder().Random(dims, in.seed, in.offset));
}

Draw DrawFromAll(TokenExpander& e, const NextTokenOperands& in, const RowNumbers& rows) {
  const ValueId wide = e.Widen(in.logits);
  ValueId noisy = e.Noisy(wide, e.Gumbel(Uniform(e, in)), rows.warmth);
  if (rows.min_p != kNoValue && e.ok()) {
    const int axis = e.Type(wide).rank() - 1;
    const ValueId below = e.Sub(wide, e.Spread(e.Statistic(ReduceKind::kMax, wide, axis), wide));
    const ValueId shares = e.Shares(below, rows.warmth);
    noisy = e.Without(noisy, e.DroppedByMinP(shares, rows.min_p), -kInf);
  }
  Draw draw;
  draw.place = e.TopK(noisy, 1);
  draw.best = e.Widen(e.Taken(in.logits, draw.place));
  return draw;
}

Draw DrawFromLargest(TokenExpander& e, const NextTokenOperands& in, const RowNumbers& rows,
                     int64_t count) {
  const ValueId ids = e.Largest(in.logits, count);
  const ValueId largest = e.Widen(e.Taken(in.logits, ids));
  const ValueId below = e.Sub(largest, e.Over(e.SliceLast(largest, 0, 1), largest));
  ValueId dropped = rows.k == kNoValue ? kNoValue : e.DroppedByK(ids, rows.k, count);
  if (rows.top_p != kNoValue || rows.min_p != kNoValue) {
    const ValueId shares = e.Shares(below, rows.warmth);
    if (rows.top_p != kNoValue) {
      const ValueId kept = e.Without(shares, dropped, 0);
      dropped = e.Either(dropped, e.DroppedByTopP(kept, rows.top_p, count));
    }
    if (rows.min_p != kNoValue) {
      dropped = e.Either(dropped, e.DroppedByMinP(shares, rows.min_p));
    }
  }
  const ValueId noise = e.Gumbel(e.Taken(Uniform(e, in), ids));
  const ValueId noisy = e.Without(e.Noisy(below, noise, rows.warmth), dropped, -kInf);
  const ValueId number = e.TopK(noisy, 1);
  Draw draw;
  draw.place = e.Taken(ids, number);
  draw.best = e.Taken(largest, number);
  return draw;
}

}  // namespace

absl::StatusOr<NextToken> AddNextToken(ChainBuilder& b, const NextTokenOperands& in,
                                       const NextTokenOptions& options) {
  TokenExpander e(b, "next_token");
  e.CheckLogits(in.logits);
  e.CheckRandom(in.logits, in.seed, in.offset);
  e.CheckCount(options.count);
  e.CheckCounted("k", in.k, options.count);
  e.CheckCounted("top_p", in.top_p, options.count);
  RowNumbers rows;
  rows.warmth = e.Warmth(e.OfRows("temperature", in.temperature, false));
  rows.k = e.OfRows("k", in.k, true);
  rows.top_p = e.OfRows("top_p", in.top_p, false);
  rows.min_p = e.OfRows("min_p", in.min_p, false);
  if (!e.ok()) return e.Finish();
  const Draw draw =
      options.count == 0 ? DrawFromAll(e, in, rows) : DrawFromLargest(e, in, rows, options.count);
  const ValueId infinite = e.Scalar(kInf);
  const ValueId finite = e.Compare(CompareKind::kLt, e.Unary(UnaryKind::kAbs, draw.best), infinite);
  const ValueId token = e.Where(finite, draw.place, e.Number(-1, DType::kS32));
  NextToken result;
  result.token = e.Rows(token);
  if (options.log_probability) {
    result.log_probability = e.Rows(e.LogProbability(in.logits, draw.best));
  }
  SINTER_RETURN_IF_ERROR(e.Finish());
  return result;
}

}  // namespace sinter
