// A persistent pool of threads for loops over independent tasks.
//
// Workers spin briefly between loops (a decode step is hundreds of short loops) and then sleep, so an
// idle engine uses no CPU. The calling thread takes part. Loops of several callers run one after
// the other. Tasks must not throw.
#pragma once

#include <cstdint>
#include <functional>

namespace lamina {

void set_num_threads(int count);  // at least 1, the caller included
int num_threads();

// Calls task(i) for every i in [0, count), in any order, on any thread; returns when all are done.
void parallel_for(int64_t count, const std::function<void(int64_t)>& task);

}  // namespace lamina
