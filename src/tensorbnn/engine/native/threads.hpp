// Threads: the division of work into pieces depends only on its size, and each piece has its own
// result, so the number of threads changes no bit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace tensorbnn {

// Threads that work on one call; 0 means a fair share of the cores.
std::atomic<int>& wanted_threads();

// Calls in progress in this process, which share the cores.
class Call {
 public:
  Call() { ++running(); }
  ~Call() { --running(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  static std::atomic<int>& running();
};

// The number of threads that a call may use, of `available` ones.
int threads_for_call(int available);

// Run `piece(0)` ... `piece(count - 1)`, each once, and return when all are done. The caller works,
// too, and waits only for pieces that another thread has begun, so a busy pool causes no delay.
template <class Schedule, class Piece>
void for_each_piece(int count, int threads, const Schedule& schedule, const Piece& piece) {
  if (threads < 2 || count < 2) {
    for (int i = 0; i < count; ++i) piece(i);
    return;
  }
  struct Shared {
    std::atomic<int> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;
    std::exception_ptr error;
  };
  const auto shared = std::make_shared<Shared>();
  const Piece* const work = &piece;
  // A helper that starts too late finds no piece left, and does not touch the caller's data.
  const auto help = [shared, count, work] {
    for (int i; (i = shared->next++) < count;) {
      try {
        (*work)(i);
      } catch (...) {
        std::lock_guard<std::mutex> lock(shared->mutex);
        shared->error = std::current_exception();
      }
      if (++shared->done == count) {
        std::lock_guard<std::mutex> lock(shared->mutex);
        shared->finished.notify_all();
      }
    }
  };
  for (int helper = 1; helper < threads && helper < count; ++helper) schedule(help);
  help();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->finished.wait(lock, [&] { return shared->done == count; });
  if (shared->error) std::rethrow_exception(shared->error);
}

// Wait a little before checking again what another thread will change.
inline void spin(int64_t looks) {
  if (looks > 500) return std::this_thread::yield();  // after some 20 microseconds
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Threads that stay awake while the same number of short pieces is repeated, as in the steps of a
// trajectory: waking one takes as long as a piece. As in `for_each_piece`, the caller works, too,
// and a helper that starts late, or never, causes no delay.
class Team {
 public:
  template <class Schedule>
  Team(int count, int threads, const Schedule& schedule)
      : count_(count) {
    if (threads < 2 || count < 2) return;
    shared_ = std::make_shared<Shared>();
    // A pool with a full queue runs the work at once on the thread of the caller, which must not
    // wait for itself.
    const auto help_from_elsewhere = [shared = shared_, count,
                                      caller = std::this_thread::get_id()] {
      if (std::this_thread::get_id() != caller) help(*shared, count);
    };
    for (int helper = 1; helper < threads && helper < count; ++helper)
      schedule(help_from_elsewhere);
  }
  ~Team() {
    if (shared_) shared_->ended = true;
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Run `piece(0)` ... `piece(count - 1)`, each once, and return when all are done.
  template <class Piece>
  void run(const Piece& piece) {
    if (!shared_) {
      for (int i = 0; i < count_; ++i) piece(i);
      return;
    }
    Shared& shared = *shared_;
    shared.done = 0;
    shared.context = &piece;
    shared.call = [](const void* context, int i) { (*static_cast<const Piece*>(context))(i); };
    shared.ticket = (shared.ticket / round + 1) * round;  // a new round begins
    take_pieces(shared, count_);
    for (int64_t looks = 0; shared.done != count_; ++looks) spin(looks);
    if (shared.error) std::rethrow_exception(std::exchange(shared.error, nullptr));
  }

 private:
  static constexpr int64_t round = 1 << 16;  // larger than any number of pieces

  struct Shared {
    std::atomic<int64_t> ticket{round - 1};  // the round, and the next piece in it: none yet
    std::atomic<int> done{0};
    std::atomic<bool> ended{false};
    // Only read by a thread that has taken a piece, while the caller waits for it.
    const void* context = nullptr;
    void (*call)(const void*, int) = nullptr;
    std::mutex mutex;
    std::exception_ptr error;
  };

  static void take_pieces(Shared& shared, int count) {
    for (int64_t ticket = shared.ticket; ticket % round < count;)
      if (shared.ticket.compare_exchange_weak(ticket, ticket + 1)) {
        try {
          shared.call(shared.context, static_cast<int>(ticket % round));
        } catch (...) {
          std::lock_guard<std::mutex> lock(shared.mutex);
          shared.error = std::current_exception();
        }
        ++shared.done;
        ticket = shared.ticket;
      }
  }

  static void help(Shared& shared, int count) {
    for (int64_t looks = 0; !shared.ended; ++looks) {
      const int64_t before = shared.ticket;
      take_pieces(shared, count);
      if (shared.ticket != before) looks = 0;
      spin(looks);
    }
  }

  const int count_;
  std::shared_ptr<Shared> shared_;  // null if the caller works alone
};

}  // namespace tensorbnn
