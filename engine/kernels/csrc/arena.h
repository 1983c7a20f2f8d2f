// Scratch memory of an operation: taken piece by piece, given back all at once, kept for the next one.
//
// Fresh pages cost more than the work on them, so a thread that calls operations keeps as much as the
// largest of them took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace lamina {

class Arena {
public:
    // The arena of this thread. What it gave out before is free again.
    static Arena& begin() {
        static thread_local Arena arena;
        arena.reset();
        return arena;
    }

    // What is taken while a Scope lives is free again when it ends.
    class Scope {
    public:
        explicit Scope(Arena& arena) : arena_(arena), piece_(arena.piece_), used_(arena.used_) {}
        ~Scope() {
            arena_.piece_ = piece_;
            arena_.used_ = used_;
        }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

    private:
        Arena& arena_;
        const size_t piece_, used_;
    };

    // `count` values without contents, on a cache line of their own.
    template <typename T>
    T* take(size_t count) {
        static_assert(std::is_trivially_copyable<T>::value, "nothing here is constructed or destroyed");
        return static_cast<T*>(bytes((count * sizeof(T) + kLine - 1) / kLine * kLine));
    }

private:
    static constexpr size_t kLine = 64;
    static constexpr size_t kLeast = 1 << 16;

    struct Free {
        void operator()(void* p) const { ::operator delete(p, std::align_val_t(kLine)); }
    };
    struct Piece {
        std::unique_ptr<void, Free> memory;
        size_t size;
    };

    // From the current piece or the first one behind it that has room.
    void* bytes(size_t count) {
        while (piece_ < pieces_.size() && pieces_[piece_].size - used_ < count) {
            ++piece_;
            used_ = 0;
        }
        if (piece_ == pieces_.size()) grow(count);
        void* out = static_cast<uint8_t*>(pieces_[piece_].memory.get()) + used_;
        used_ += count;
        return out;
    }

    void grow(size_t count) {
        const size_t twice = pieces_.empty() ? kLeast : 2 * pieces_.back().size, size = count < twice ? twice : count;
        pieces_.reserve(pieces_.size() + 1);
        pieces_.push_back({std::unique_ptr<void, Free>(::operator new(size, std::align_val_t(kLine))), size});
    }

    void reset() { piece_ = used_ = 0; }

    std::vector<Piece> pieces_;  // each at least twice as large as the one before
    size_t piece_ = 0;           // the one that is handed out, and how much of it
    size_t used_ = 0;
};

}  // namespace lamina
