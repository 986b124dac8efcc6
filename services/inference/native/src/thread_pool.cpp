#include "thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace edgelora {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// About as long as the longest unit takes; after it the core is offered to others.
constexpr int kSpins = 4000;
// Between tasks threads stay awake this long, so that step follows step without a wake-up.
constexpr int kIdleSpins = 10000;

template <typename Done>
void spin_until(Done done) {
  for (int spins = 0; !done(); spins++) {
    if (spins < kSpins) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

void ThreadPool::Team::spin(const Pending& phase) const {
  spin_until([&] { return phase.done->value(task_) >= phase.count; });
}

ThreadPool::ThreadPool(int num_threads, int max_phases)
    : num_counters_(static_cast<size_t>(max_phases) * static_cast<size_t>(num_threads + 1)),
      counters_(std::make_unique<Team::Counter[]>(num_counters_)),
      num_active_(num_threads) {
  try {
    for (int i = 1; i < num_threads; i++) threads_.emplace_back([this, i] { work(i); });
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_.store(true);
    num_tasks_.fetch_add(1);
  }
  changed_.notify_all();
  wanted_again_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::set_active(int count) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    num_active_.store(count);
  }
  // Those that sleep among the others have to move over, those that are wanted again to come back.
  changed_.notify_all();
  wanted_again_.notify_all();
}

void ThreadPool::run(const std::function<void(Team&)>& task) {
  task_ = &task;
  // Nobody is inside a task here. Once in 2^32 tasks an old count could be taken for a new one.
  if (++task_number_ == 0) {
    for (size_t i = 0; i < num_counters_; i++) counters_[i].clear();
    task_number_ = 1;
  }
  gate_.store(0, std::memory_order_release);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    num_tasks_.fetch_add(1, std::memory_order_release);
    if (num_sleeping_ > 0) changed_.notify_all();
  }
  Team team(*this, 0);
  task(team);
  gate_.fetch_or(kClosed, std::memory_order_acq_rel);
  spin_until([&] { return gate_.load(std::memory_order_acquire) == kClosed; });
}

uint64_t ThreadPool::wait_for_task(int index, uint64_t seen) {
  const auto is_active = [&] { return index < num_active_.load(std::memory_order_acquire); };
  const auto is_due = [&] { return num_tasks_.load(std::memory_order_acquire) != seen; };
  for (int spins = 0; spins < kIdleSpins && is_active(); spins++) {
    if (is_due()) return num_tasks_.load(std::memory_order_acquire);
    relax();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wanted_again_.wait(lock, [&] { return is_active() || stopping_.load(); });
    num_sleeping_++;
    changed_.wait(lock, [&] { return is_due() || !is_active(); });
    num_sleeping_--;
    if (is_due() && (is_active() || stopping_.load()))
      return num_tasks_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work(int index) {
  for (uint64_t seen = 0;;) {
    seen = wait_for_task(index, seen);
    if (stopping_.load()) return;
    uint32_t gate = gate_.load(std::memory_order_acquire);
    while ((gate & kClosed) == 0) {
      if (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) continue;
      // It may have been on its way here since the task before, and not be wanted in this one.
      if (index < num_active()) {
        Team team(*this, index);
        (*task_)(team);
      }
      gate_.fetch_sub(1, std::memory_order_acq_rel);
      break;
    }
  }
}

}  // namespace edgelora
