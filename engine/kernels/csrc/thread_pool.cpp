#include "thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lamina {
namespace {

constexpr int kSpins = 2000;  // tens of microseconds: longer than the gap between two ops of a step

void pause_briefly() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

class Pool {
public:
    explicit Pool(int count) {
        for (int i = 1; i < count; ++i) threads_.emplace_back([this] { work(); });
    }

    ~Pool() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stopping_ = true;
            round_.fetch_add(1, std::memory_order_release);
        }
        wake_.notify_all();
        for (std::thread& t : threads_) t.join();
    }

    int size() const { return static_cast<int>(threads_.size()) + 1; }

    void run(int64_t count, const std::function<void(int64_t)>& task) {
        std::lock_guard<std::mutex> one_caller(callers_);
        if (threads_.empty() || count <= 1) {
            for (int64_t i = 0; i < count; ++i) task(i);
            return;
        }
        task_ = &task;
        count_ = count;
        next_.store(0, std::memory_order_relaxed);
        busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            round_.fetch_add(1, std::memory_order_release);  // publishes the fields above
        }
        wake_.notify_all();
        drain();
        for (int spin = 0; busy_.load(std::memory_order_acquire) != 0; ++spin) {
            if (spin < kSpins) {
                pause_briefly();
            } else {
                std::this_thread::yield();  // a worker lost its core: let it have ours
            }
        }
    }

private:
    void drain() {
        for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) (*task_)(i);
    }

    void work() {
        uint64_t seen = 0;
        for (;;) {
            for (int spin = 0; spin < kSpins && round_.load(std::memory_order_acquire) == seen; ++spin) {
                pause_briefly();
            }
            if (round_.load(std::memory_order_acquire) == seen) {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return round_.load(std::memory_order_acquire) != seen; });
            }
            seen = round_.load(std::memory_order_acquire);
            if (stopping_) return;
            drain();
            busy_.fetch_sub(1, std::memory_order_release);
        }
    }

    std::vector<std::thread> threads_;
    std::mutex callers_, mutex_;
    std::condition_variable wake_;
    std::atomic<uint64_t> round_{0};
    bool stopping_ = false;
    const std::function<void(int64_t)>* task_ = nullptr;
    int64_t count_ = 0;
    std::atomic<int64_t> next_{0};
    std::atomic<int> busy_{0};
};

std::mutex pool_mutex;
std::shared_ptr<Pool> pool;
int wanted = 0;  // threads asked for; 0 means all cores

// A forked child has no workers. It forgets the pool of its parent without joining threads that it
// has not got, and makes its own when it first needs one. Nobody may be changing the pool meanwhile.
void before_fork() { pool_mutex.lock(); }
void after_fork() { pool_mutex.unlock(); }
void after_fork_in_child() {
    if (pool) new std::shared_ptr<Pool>(std::move(pool));  // never destroyed
    pool_mutex.unlock();
}
const int fork_handlers = pthread_atfork(before_fork, after_fork, after_fork_in_child);

std::shared_ptr<Pool> current() {
    std::lock_guard<std::mutex> lock(pool_mutex);
    if (!pool) {
        const int cores = static_cast<int>(std::thread::hardware_concurrency());
        pool = std::make_shared<Pool>(wanted > 0 ? wanted : cores > 0 ? cores : 1);
    }
    return pool;
}

}  // namespace

void set_num_threads(int count) {
    std::shared_ptr<Pool> next = std::make_shared<Pool>(count);
    std::lock_guard<std::mutex> lock(pool_mutex);
    wanted = count;
    pool.swap(next);  // the old pool ends with its last user, after the lock is released
}

int num_threads() { return current()->size(); }

void parallel_for(int64_t count, const std::function<void(int64_t)>& task) {
    current()->run(count, task);
}

}  // namespace lamina
