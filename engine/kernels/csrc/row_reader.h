// Reads rows of a file that lie anywhere; see engine/ngram/table.py.
#pragma once

#include <cstdint>

namespace lamina {

// A row that could not be read, -1 if all were; and why: errno, or -1 at the end of the file.
struct ReadFailure {
    int64_t row;
    int number;
};

// Reads `row_bytes` bytes at each of `count` ascending offsets into out (count, row_bytes).
ReadFailure read_rows(int fd, const int64_t* offsets, int64_t count, int64_t row_bytes, uint8_t* out);

}  // namespace lamina
