// model.safetensors.index.json beside two files of a checkpoint.
#include <ATen/Functions.h>

#include "io/safetensors.h"
#include "model/hugging_face.h"
#include "target.h"

namespace {
struct IndexedFolder : optrush::fuzz::Files {
  IndexedFolder() {
    optrush::write_safetensors(*this / "a.safetensors", {{"x", at::ones({2})}});
    optrush::write_safetensors(*this / "b.safetensors", {{"y", at::ones({2})}});
  }
};
}  // namespace

FUZZ_TARGET(checkpoint_index) {
  using namespace optrush;
  static const IndexedFolder folder;
  folder.write("model.safetensors.index.json", fuzz::text_of(data, size));
  fuzz::feed([&] {
    const Checkpoint checkpoint{folder.path()};
    fuzz::hold(!checkpoint.contains("z"), "no file has that tensor");
  });
  return 0;
}
