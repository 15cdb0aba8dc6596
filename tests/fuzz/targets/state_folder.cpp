// The index of a saved state, in the metadata of a rank's file; its tensors are 12 and 3 numbers.
#include "io/state_folder.h"

#include <ATen/Functions.h>

#include <cstring>

#include "target.h"

namespace {
using namespace optrush;

struct SavedFolder : fuzz::Files {
  SavedFolder() {
    std::filesystem::create_directories(*this / "step-00000001");
    write("state.json", R"({"schema_version": 1, "step": 1, "ranks": 1})");
  }
  void write_part(const std::string& index) const {
    const Json header = {{"__metadata__", {{"optrush_state", index}}},
                         {"a", {{"dtype", "F32"}, {"shape", {12}}, {"data_offsets", {0, 48}}}},
                         {"b", {{"dtype", "F32"}, {"shape", {3}}, {"data_offsets", {48, 60}}}}};
    const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
    const uint64_t size = text.size();
    std::string file(reinterpret_cast<const char*>(&size), sizeof size);
    file += text;
    for (int i = 0; i < 15; ++i) {
      const auto number = static_cast<float>(i);
      file.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    write("step-00000001/rank-00000.safetensors", file);
  }
};
}  // namespace

FUZZ_TARGET(state_folder) {
  static const SavedFolder folder;
  folder.write_part(fuzz::text_of(data, size));
  fuzz::feed([&] {
    const StateFolder state(folder.path());
    for (const auto& key : state.keys()) {
      const auto pieces = state.read(key);
      for (const StatePiece& piece : pieces) {
        fuzz::hold(piece.value.numel() == piece.layout.numel(), "a piece has the elements of its layout");
        for (const auto& part : piece.layout.pieces())
          for (size_t axis = 0; axis < part.box.end.size(); ++axis)
            fuzz::hold(part.box.end[axis] <= piece.layout.shape()[axis], "a box lies in its tensor");
      }
      if (pieces.empty() || Layout(pieces.front().layout.shape()).numel() > 1000) continue;
      const Tensor whole = state.whole(key);
      fuzz::hold(whole.sum().item<double>() >= 0, "every element of a whole tensor was saved");
    }
  });
  return 0;
}
