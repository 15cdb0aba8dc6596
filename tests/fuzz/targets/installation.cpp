// installation.json of a build tree or a prefix.
#include "machine/installation.h"

#include "target.h"

FUZZ_TARGET(installation) {
  using namespace optrush;
  static const fuzz::Files files;
  files.write("installation.json", fuzz::text_of(data, size));
  fuzz::feed([&] {
    const Installation found = Installation::of_programs_in(files / "bin");
    fuzz::hold(!found.installed && found.root == files.path(), "the file's folder is the build tree");
  });
  return 0;
}
