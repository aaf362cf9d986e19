// NodeSet: a set of small numbers, one bit each.
#ifndef SINTER_SRC_FUSION_STITCH_NODE_SET_H_
#define SINTER_SRC_FUSION_STITCH_NODE_SET_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sinter {

// Sets in one call must have the same bound. Equal sets compare equal and hash alike. Concurrent
// reads are safe, writes are not.
class NodeSet {
 public:
  NodeSet() = default;
  explicit NodeSet(int bound) : words_((static_cast<size_t>(bound) + 63) / 64) {}

  void Add(int i) { words_[Word(i)] |= Bit(i); }
  void Remove(int i) { words_[Word(i)] &= ~Bit(i); }
  bool Contains(int i) const { return (words_[Word(i)] & Bit(i)) != 0; }

  void Unite(const NodeSet& o) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= o.words_[w];
  }
  void Subtract(const NodeSet& o) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] &= ~o.words_[w];
  }
  bool Intersects(const NodeSet& o) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      if (words_[w] & o.words_[w]) return true;
    }
    return false;
  }
  // Whether this set contains every number that is in both `a` and `b`.
  bool CoversCommonOf(const NodeSet& a, const NodeSet& b) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      if (a.words_[w] & b.words_[w] & ~words_[w]) return false;
    }
    return true;
  }
  bool Includes(const NodeSet& o) const { return CoversCommonOf(o, o); }
  bool empty() const { return !Intersects(*this); }
  int size() const {
    int count = 0;
    for (uint64_t word : words_) count += __builtin_popcountll(word);
    return count;
  }
  // Calls visit(i) in ascending order.
  template <typename Visitor>
  void ForEach(Visitor&& visit) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t rest = words_[w]; rest != 0; rest &= rest - 1) {
        visit(static_cast<int>(w * 64) + __builtin_ctzll(rest));
      }
    }
  }
  // The smallest number; -1 when empty.
  int First() const {
    for (size_t w = 0; w < words_.size(); ++w) {
      if (words_[w] != 0) return static_cast<int>(w * 64) + __builtin_ctzll(words_[w]);
    }
    return -1;
  }
  std::vector<int> ToVector() const {
    std::vector<int> list;
    ForEach([&](int i) { list.push_back(i); });
    return list;
  }
  bool operator==(const NodeSet& o) const { return words_ == o.words_; }
  bool operator!=(const NodeSet& o) const { return words_ != o.words_; }
  // A total order for ties: compares the ascending lists of numbers lexicographically, with a
  // longer list before its own prefix.
  bool Before(const NodeSet& o) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      const uint64_t differ = words_[w] ^ o.words_[w];
      if (differ != 0) return (words_[w] & differ & (~differ + 1)) != 0;
    }
    return false;
  }
  struct Hash {
    size_t operator()(const NodeSet& s) const {
      uint64_t hash = 0;
      for (const uint64_t word : s.words_) {
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
      }
      return hash;
    }
  };

 private:
  static size_t Word(int i) { return static_cast<size_t>(i) / 64; }
  static uint64_t Bit(int i) { return uint64_t{1} << (static_cast<unsigned>(i) % 64); }
  std::vector<uint64_t> words_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_NODE_SET_H_
