#include "cpu/thread_pool.h"

#include <algorithm>

#if defined(__linux__)
#include <sched.h>
#endif

namespace octavo::cpu {

namespace {

constexpr int kLooks = 200;  // some microseconds: longer waits are for a sleeper

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

template <class Condition>
void look_for(const Condition& condition) {
  for (int i = 0; i < kLooks && !condition(); i++) {
    pause();
  }
}

}  // namespace

int available_cores() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    return std::max(1, CPU_COUNT(&allowed));
  }
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int num_threads) {
  start(num_threads - 1);
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::resize(int num_threads) {
  std::lock_guard running(running_);
  stop();
  start(num_threads - 1);
}

void ThreadPool::run(int64_t units, int64_t piece, const Work& work) {
  std::unique_lock running(running_, std::try_to_lock);
  if (!running || workers_.empty() || units <= piece) {
    work(0, units);
    return;
  }
  Job job{&work, units, piece};
  {
    std::lock_guard lock(mutex_);
    job_ = &job;
    generation_++;
  }
  work_ready_.notify_all();
  help(job);
  auto is_done = [&] { return job.helpers == 0; };
  {
    std::lock_guard lock(mutex_);
    job_ = nullptr;  // nobody else begins to help
  }
  look_for(is_done);
  std::unique_lock lock(mutex_);
  helpers_gone_.wait(lock, is_done);
}

void ThreadPool::help(Job& job) {
  for (;;) {
    int64_t begin = job.next.fetch_add(job.piece);
    if (begin >= job.units) {
      return;
    }
    (*job.work)(begin, std::min(begin + job.piece, job.units));
  }
}

void ThreadPool::worker() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    lock.unlock();
    look_for([&] { return generation_ != seen; });
    lock.lock();
    work_ready_.wait(lock, [&] { return stopping_ || (job_ && generation_ != seen); });
    if (stopping_) {
      return;
    }
    seen = generation_;
    Job& job = *job_;
    job.helpers++;
    lock.unlock();
    help(job);
    lock.lock();
    if (--job.helpers == 0) {
      helpers_gone_.notify_one();
    }
  }
}

void ThreadPool::start(int num_workers) {
  for (int i = 0; i < num_workers; i++) {
    workers_.emplace_back([this] { worker(); });
  }
  num_threads_.store(num_workers + 1, std::memory_order_relaxed);
}

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& thread : workers_) {
    thread.join();
  }
  workers_.clear();
  stopping_ = false;
}

ThreadPool& thread_pool() {
  // Never destroyed: MLX's stream threads may still be at work when the process exits.
  static ThreadPool* pool = new ThreadPool(available_cores());
  return *pool;
}

}  // namespace octavo::cpu
