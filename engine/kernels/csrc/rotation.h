// Rotary position embedding of one position.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace lamina {

// Turns pairs of a head's dimensions by position * inv_freq[i]. Angles are computed in double: at
// position 262,143 a float32 product is off by more than 1e-2.
class Rotation {
public:
    Rotation(int32_t position, const double* inv_freq, int64_t pairs)
        : cosine_(static_cast<size_t>(pairs)), sine_(cosine_.size()) {
        for (size_t i = 0; i < cosine_.size(); ++i) {
            const double angle = static_cast<double>(position) * inv_freq[i];
            cosine_[i] = static_cast<float>(std::cos(angle));
            sine_[i] = static_cast<float>(std::sin(angle));
        }
    }

    // Pair i is (i, i + pairs) with `halves`, else (2i, 2i + 1).
    void turn(float* head, bool halves) const {
        const size_t pairs = cosine_.size();
        for (size_t i = 0; i < pairs; ++i) {
            float& a = head[halves ? i : 2 * i];
            float& b = head[halves ? i + pairs : 2 * i + 1];
            const float rotated = a * cosine_[i] - b * sine_[i];
            b = a * sine_[i] + b * cosine_[i];
            a = rotated;
        }
    }

private:
    std::vector<float> cosine_, sine_;
};

}  // namespace lamina
