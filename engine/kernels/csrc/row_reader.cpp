// All rows are announced before the first is read, so the system fetches them side by side: the
// batch takes about as long as its slowest read, not as long as all of them one after the other.
#include "row_reader.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace lamina {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int kEndOfFile = -1;

void announce(int fd, const int64_t* offsets, int64_t count, int64_t row_bytes) {
#ifdef POSIX_FADV_WILLNEED
    int64_t announced = -1;  // the last page that was
    for (int64_t i = 0; i < count; ++i) {
        const int64_t last = (offsets[i] + row_bytes - 1) / kPageBytes;
        if (last == announced) continue;
        posix_fadvise(fd, offsets[i], row_bytes, POSIX_FADV_WILLNEED);  // advice: may be ignored
        announced = last;
    }
#else
    (void)fd, (void)offsets, (void)count, (void)row_bytes;
#endif
}

int read_fully(int fd, int64_t offset, int64_t bytes, uint8_t* out) {
    while (bytes > 0) {
        const ssize_t got = pread(fd, out, static_cast<size_t>(bytes), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) return kEndOfFile;
        offset += got;
        out += got;
        bytes -= got;
    }
    return 0;
}

}  // namespace

ReadFailure read_rows(int fd, const int64_t* offsets, int64_t count, int64_t row_bytes, uint8_t* out) {
    announce(fd, offsets, count, row_bytes);
    for (int64_t i = 0; i < count; ++i) {
        const int number = read_fully(fd, offsets[i], row_bytes, out + i * row_bytes);
        if (number != 0) return {i, number};
    }
    return {-1, 0};
}

}  // namespace lamina
