#pragma once

namespace optrush {
/// Whether this thread's forward only tells a loss on held-out data: without gradients, and nothing trains on
/// it. What is noise on purpose (dropout) or learns from activations asks at each call, and rests.
bool evaluating();
}  // namespace optrush
