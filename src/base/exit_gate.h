// ExitGate: the library's threads leave before exit() takes away what they work with.
#ifndef SINTER_SRC_BASE_EXIT_GATE_H_
#define SINTER_SRC_BASE_EXIT_GATE_H_

#include <unistd.h>

namespace sinter {

// exit() runs the destructors of loaded libraries, NVRTC's and OpenSSL's among them, while other
// threads go on: one that compiles or digests meanwhile crashes the process that was about to end
// well. Work of the library's passes this gate. exit() shuts it, and waits until everybody is out,
// kLongestWaitSeconds at most. Work inside asks Exiting() as it asks for a cancel. Thread-safe;
// the child of a fork starts with nobody inside.
class ExitGate {
 public:
  static constexpr int kLongestWaitSeconds = 10;

  // The calling thread works until the pass dies, which it does on the same thread. Passes nest.
  class Pass {
   public:
    Pass();
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    // False when the gate is shut: nothing may be begun.
    explicit operator bool() const { return inside_; }

   private:
    const pid_t owner_;
    const bool inside_;
  };

  // A library is loaded or used for the first time: exit() destroys what is constructed meanwhile
  // before a wait that was registered earlier. So the main thread, before it exits or ends, waits
  // for first uses, kLongestWaitSeconds at most; nobody asks them to stop. WaitAtExit is to be
  // called before a first use dies, which it does on the same thread. An exit() of another thread
  // does not wait for them.
  class FirstUse {
   public:
    FirstUse();
    ~FirstUse();
    FirstUse(const FirstUse&) = delete;
    FirstUse& operator=(const FirstUse&) = delete;
    // False when the process exits: nothing may be begun.
    explicit operator bool() const { return inside_; }

   private:
    const pid_t owner_;
    const bool inside_;
  };

  static bool Exiting();

  // exit() does things in the reverse order of their registration: to be called once something
  // with destructors was loaded or first used, to wait before those run. However often it was
  // called, all waits of an exit together end after kLongestWaitSeconds. Each call takes one of the
  // C library's entries for ever.
  static void WaitAtExit();
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_EXIT_GATE_H_
