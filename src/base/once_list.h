// OnceList: what is computed of an immutable object at the first call, by key, and kept with it.
#ifndef SINTER_SRC_BASE_ONCE_LIST_H_
#define SINTER_SRC_BASE_ONCE_LIST_H_

#include <atomic>
#include <utility>

namespace sinter {

// Thread-safe. Takes no lock, so that the child of a fork goes on whatever its parent was doing:
// threads that come first at the same time compute the value each, and one of them stays. Values
// live as long as the list. A search looks at each key: for a few.
template <typename Key, typename Value>
class OnceList {
 public:
  OnceList() = default;
  OnceList(const OnceList&) = delete;
  OnceList& operator=(const OnceList&) = delete;
  ~OnceList() {
    const Node* node = newest_.load(std::memory_order_acquire);
    while (node != nullptr) delete std::exchange(node, node->before);
  }

  // Null: there is none yet.
  const Value* Find(const Key& key) const {
    return FindFrom(newest_.load(std::memory_order_acquire), key);
  }

  // Returns what stays: `value`, or the one that another thread has kept by now.
  const Value& Keep(Key key, Value value) const {
    Node* node =
        new Node{std::move(key), std::move(value), newest_.load(std::memory_order_acquire)};
    do {
      if (const Value* known = FindFrom(node->before, node->key)) {
        delete node;
        return *known;
      }
    } while (!newest_.compare_exchange_weak(node->before, node, std::memory_order_acq_rel));
    return node->value;
  }

  int size() const {
    int count = 0;
    for (const Node* n = newest_.load(std::memory_order_acquire); n != nullptr; n = n->before)
      ++count;
    return count;
  }

 private:
  struct Node {
    Key key;
    Value value;
    const Node* before;
  };
  static const Value* FindFrom(const Node* node, const Key& key) {
    for (; node != nullptr; node = node->before) {
      if (node->key == key) return &node->value;
    }
    return nullptr;
  }

  mutable std::atomic<const Node*> newest_{nullptr};
};

// Its address is a key that tells types apart.
template <typename T>
inline constexpr char kTypeKey = 0;

}  // namespace sinter

#endif  // SINTER_SRC_BASE_ONCE_LIST_H_
