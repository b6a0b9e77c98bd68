// Threads: work is cut into pieces by its size alone, and each piece leaves its own result, so that
// the number of threads changes no bit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

namespace tensorbnn {

// Threads that work on one call; 0 stands for a fair share of the cores.
std::atomic<int>& wanted_threads();

// Calls that are being worked on in this process: they share the cores.
class Call {
 public:
  Call() { ++running(); }
  ~Call() { --running(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  static std::atomic<int>& running();
};

// How many threads a call may use, of `available` ones.
int threads_for_call(int available);

// Run `piece(0)` ... `piece(count - 1)`, each once, and return when all are done. The caller works
// too, and waits only for pieces that another thread has begun: a busy pool delays nothing.
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
  // A helper that comes too late finds no piece left, and touches nothing of the caller's.
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

}  // namespace tensorbnn
