// Calls of native operations, recorded to be made again. See engine/kernels/ops/record.py.
#pragma once

#include <functional>
#include <vector>

namespace lamina {

class Program {
public:
    void add(std::function<void()> call) { calls_.push_back(std::move(call)); }
    void run() const {
        for (const auto& call : calls_) call();
    }

private:
    std::vector<std::function<void()>> calls_;
};

// What this thread records into, or null.
inline thread_local Program* recording = nullptr;

template <typename F, typename... Args>
auto recordable_as(F f, void (F::*)(Args...) const) {
    return [f](Args... args) {
        f(args...);
        if (recording != nullptr) recording->add([f, args...] { f(args...); });
    };
}

// f, and its calls are recorded with copies of their arguments. A call that throws is not.
template <typename F>
auto recordable(F f) {
    return recordable_as(f, &F::operator());
}

template <typename... Args>
auto recordable(void (*f)(Args...)) {
    return recordable([f](Args... args) { f(args...); });
}

}  // namespace lamina
