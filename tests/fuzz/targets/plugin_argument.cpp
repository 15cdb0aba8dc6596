// --plugin NAME:key=value,key=value of optrush-worker.
#include "plugin/description.h"
#include "plugins_folder.h"

FUZZ_TARGET(plugin_argument) {
  using namespace optrush;
  static const Catalogue catalogue = Catalogue::find({fuzz::plugins_folder()});
  fuzz::feed([&] {
    const PluginUse use = parse_plugin_argument(fuzz::text_of(data, size), catalogue);
    const Options options(catalogue.at(use.name).options, use.options, "--plugin");
    fuzz::hold(options.json().is_object(), "options are named");
  });
  return 0;
}
