#pragma once
#include <functional>
#include <string>
#include <vector>

#include "data/text_tokens.h"
#include "results/run_result.h"
#include "train/session.h"

namespace optrush {
/// Continues prompts with the model as it is, each token the most probable one, by forwards of training's
/// shape without gradients. Every rank calls it; it leaves nothing behind that a step could see. Returns one
/// for each prompt, or none where a rank has a part of the model's layers, sequences or vocabulary alone: the
/// run's notes then say so.
std::vector<SampledText> sample_text(Session& session);
}  // namespace optrush
