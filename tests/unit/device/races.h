// Races: what threads do to words of shared memory between the barriers that all of them pass.
#pragma once

#include "tests/support/common.h"

namespace sinter {
namespace hardware {

// Threads run one after the other here; barriers part what each does into turns. Two threads race
// for a word that one stores and the other touches in the same turn. A mutant leaves one barrier
// out: the one at place `left_out` of every `period` that a thread comes to.
class Races {
 public:
  static constexpr int kNone = -1;

  Races(int left_out, int period) : left_out_(left_out), period_(period) {}

  void Barrier(unsigned thread) {
    Place& place = places_[thread];
    if (place.barriers++ % period_ != left_out_) ++place.turn;
  }
  void Touch(unsigned thread, uint32_t address, bool store) {
    std::vector<Access>& seen = words_[{address, places_[thread].turn}];
    for (const Access& other : seen) {
      if (other.thread != thread && (other.store || store)) ++found_;
    }
    seen.push_back({thread, store});
  }
  int found() const { return found_; }

 private:
  struct Place {
    int barriers = 0, turn = 0;
  };
  struct Access {
    unsigned thread;
    bool store;
  };
  int left_out_, period_, found_ = 0;
  std::map<unsigned, Place> places_;
  std::map<std::pair<uint32_t, int>, std::vector<Access>> words_;  // by address and turn
};

}  // namespace hardware
}  // namespace sinter
