// What the remote tests share: a real redis-server on loopback, and servers that misbehave.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "cache/remote/redis.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace remote_testing {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

inline Deadline In(int ms) { return steady_clock::now() + milliseconds(ms); }

// A socket that listens on a free port of loopback.
inline int Listen(uint16_t* port, int backlog = 16) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, backlog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    close(fd);
    return -1;
  }
  *port = ntohs(address.sin_port);
  return fd;
}

// A free port of loopback, at which nobody listens: connections are refused at once. Nobody else
// gets it until the socket that is returned is closed; a server that gets this port may listen
// there.
inline int HoldPort(uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) != 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    close(fd);
    return -1;
  }
  *port = ntohs(address.sin_port);
  return fd;
}

inline RemoteAddress Loopback(uint16_t port) {
  return RemoteAddress{.host = "127.0.0.1", .port = port};
}

// redis-server of the distribution, started here and ended here.
class RedisServer {
 public:
  explicit RedisServer(const std::string& password = "", uint16_t port = 0) {
    if (port == 0) held_ = HoldPort(&port);
    port_ = port;
    std::vector<std::string> words = {
        "redis-server", "--port",    absl::StrCat(port_), "--bind", "127.0.0.1",
        "--save",       "",          "--appendonly",      "no",     "--dir",
        folder_.path(), "--logfile", folder_ / "log"};
    if (!password.empty()) words.insert(words.end(), {"--requirepass", password});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(&word[0]);
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that dies takes it along
      dup2(open("/dev/null", O_RDWR), STDOUT_FILENO);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    password_ = password;
    running_ = Await();
  }
  ~RedisServer() {
    End();
    if (held_ >= 0) close(held_);
  }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGCONT);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void Pause() { kill(pid_, SIGSTOP); }
  void Resume() { kill(pid_, SIGCONT); }

  bool running() const { return running_; }
  uint16_t port() const { return port_; }
  std::unique_ptr<RemoteBackend> Client() const {
    return std::make_unique<RedisBackend>(Loopback(port_), password_);
  }

 private:
  bool Await() {
    for (int i = 0; i < 500; ++i) {
      if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        return false;  // not installed, or the port was taken
      }
      if (Client()->Members("no-such-set", In(100)).ok()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }

  cache_testing::TempDir folder_;
  std::string password_;
  uint16_t port_ = 0;
  int held_ = -1;  // the port, if it was chosen here
  pid_t pid_ = -1;
  bool running_ = false;
};

// Runs `serve(connection)` for each connection, each in a thread of its own. Ends what is open when
// it goes.
class FakeServer {
 public:
  explicit FakeServer(std::function<void(int)> serve) : serve_(std::move(serve)) {
    listener_ = Listen(&port_);
    thread_ = std::thread([this] { Run(); });
  }
  ~FakeServer() {
    stop_ = true;
    thread_.join();
    close(listener_);
    for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
    for (std::thread& server : servers_) server.join();
    for (const int connection : connections_) close(connection);
  }
  uint16_t port() const { return port_; }
  std::unique_ptr<RemoteBackend> Client() const {
    return std::make_unique<RedisBackend>(Loopback(port_), "");
  }
  const std::atomic<bool>& stop() const { return stop_; }

 private:
  void Run() {
    while (!stop_) {
      pollfd ready{listener_, POLLIN, 0};
      if (poll(&ready, 1, 10) <= 0) continue;
      const int connection = accept(listener_, nullptr, nullptr);
      if (connection < 0) continue;
      connections_.push_back(connection);
      servers_.emplace_back([this, connection] {
        serve_(connection);
        shutdown(connection, SHUT_RDWR);
      });
    }
  }

  std::function<void(int)> serve_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::vector<int> connections_;      // of the thread, until it ended
  std::vector<std::thread> servers_;  // also of the thread, until it ended
  std::thread thread_;
};

// Waits for a command, then sends `reply`, `bytes` at a time, `pause_ms` between them.
inline std::function<void(int)> Replying(std::string reply, size_t bytes = SIZE_MAX,
                                         int pause_ms = 0) {
  return [reply, bytes, pause_ms](int connection) {
    char buffer[65536];
    while (recv(connection, buffer, sizeof(buffer), 0) > 0) {
      for (size_t at = 0; at < reply.size();) {
        const size_t n = std::min(bytes, reply.size() - at);
        if (send(connection, reply.data() + at, n, MSG_NOSIGNAL) < 0) return;
        at += n;
        if (pause_ms > 0) std::this_thread::sleep_for(milliseconds(pause_ms));
      }
    }
  };
}

}  // namespace remote_testing
}  // namespace sinter
