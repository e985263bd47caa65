// A few worker threads that share out the units of one op.
//
// The calling thread works too and starts at once: a worker that wakes late finds nothing left and is not
// waited for. Who waits looks a few times, for some microseconds, before it sleeps: the ops of a layer follow each
// other within that, and waking a thread takes as long as a small op. It never spins for longer: on a shared machine
// a spinning thread holds up the one it waits for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace octavo::cpu {

// Cores this process may run on.
int available_cores();

class ThreadPool {
 public:
  using Work = std::function<void(int64_t begin, int64_t end)>;

  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_.load(std::memory_order_relaxed); }

  // Stops the workers and starts n - 1 new ones. Waits for the job in progress.
  void resize(int num_threads);

  // Calls work on pieces of [0, units), at most `piece` units each, and returns when all are done.
  // work must not throw. A second caller at the same time works alone.
  void run(int64_t units, int64_t piece, const Work& work);

 private:
  struct Job {
    const Work* work;
    int64_t units;
    int64_t piece;
    std::atomic<int64_t> next{0};
    std::atomic<int> helpers{0};
  };

  void start(int num_workers);
  void stop();
  void worker();
  static void help(Job& job);

  std::mutex running_;  // held by the caller whose job is published
  std::mutex mutex_;    // guards what follows; generation_ and helpers may be looked at without it
  std::condition_variable work_ready_;
  std::condition_variable helpers_gone_;
  Job* job_ = nullptr;
  std::atomic<uint64_t> generation_{0};
  bool stopping_ = false;
  std::vector<std::thread> workers_;  // changed under running_
  std::atomic<int> num_threads_{1};
};

ThreadPool& thread_pool();

}  // namespace octavo::cpu
