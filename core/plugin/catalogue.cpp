#include <sys/stat.h>

#include <algorithm>

#include "base/contains.h"
#include "base/suggest.h"
#include "base/text.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "optrush/error.h"
#include "plugin/description.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
bool anybody_may_write(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0;
}

struct Folder {
  fs::path path;
  bool optional = false;  ///< the folder may be missing
};

std::vector<Folder> search_order(const std::vector<std::string>& given, std::vector<Unusable>& unusable) {
  std::vector<Folder> folders;
  for (const auto& folder : given) folders.push_back({fs::absolute(folder)});
  for (const fs::path folder : split(environment_variable("OPTRUSH_PLUGIN_PATH"), ":")) {
    if (folder.is_absolute())
      folders.push_back({folder});
    else if (!folder.empty())
      unusable.push_back(
          {folder,
           "OPTRUSH_PLUGIN_PATH must contain absolute paths: the working directory is never searched"});
  }
  folders.push_back({Installation::of_this_program().plugins, true});
  return folders;
}

/// The shared objects of a folder, sorted by name.
std::vector<fs::path> files_of(const Folder& folder, std::vector<Unusable>& unusable) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator entries(folder.path, error);
  if (error) {
    if (!folder.optional) unusable.push_back({folder.path, "cannot be searched: " + error.message()});
    return files;
  }
  for (const auto& entry : entries)
    if (entry.path().extension() == ".so") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// The description of a plugin file; throws an Error if it can't be loaded here.
PluginDescription usable(const fs::path& link) {
  std::error_code broken;
  const fs::path file = fs::canonical(link, broken);
  if (broken) throw Error(ErrorCode::invalid_plugin, "is a broken link: " + broken.message());
  for (const auto& path : {file.parent_path(), file})
    if (anybody_may_write(path))
      throw Error(
          ErrorCode::invalid_plugin,
          "every user may write to '" + path.string() + "', and could run code in the next experiment",
          "chmod o-w '" + path.string() + "'");
  PluginDescription plugin = read_description(file);
  check_compatible(plugin);
  return plugin;
}

std::string plugin_name_of(const fs::path& file) {
  const std::string stem = file.stem();
  return stem.starts_with("lib") ? stem.substr(3) : stem;
}

/// An option of a command line, by the type of the option.
Json option_value(const std::string& type, const std::string& text) {
  if (type == "list") return text.empty() ? Json::array() : Json::array({text});
  // "": an unknown option, which the check of the options reports
  return text_value(text, type.empty() || type == "folder" ? "string" : type);
}
}  // namespace

Catalogue Catalogue::find(const std::vector<std::string>& given) {
  Catalogue catalogue;
  const auto refuse = [&](const fs::path& file, const std::string& why) {
    catalogue.unusable_.push_back({file, why});
  };
  for (const auto& folder : search_order(given, catalogue.unusable_)) {
    for (const auto& file : files_of(folder, catalogue.unusable_)) {
      try {
        PluginDescription plugin = usable(file);
        const auto first = std::ranges::find(catalogue.plugins_, plugin.name, &PluginDescription::name);
        if (first == catalogue.plugins_.end())
          catalogue.plugins_.push_back(std::move(plugin));
        else if (first->file != plugin.file)
          refuse(file, "hidden by the plugin of the same name in " + first->file.string());
      } catch (const Error& e) {
        refuse(file, e.message() + (e.cure().empty() ? "" : "\n  hint: " + e.cure()));
      } catch (const fs::filesystem_error& e) {
        refuse(file, e.what());
      }
    }
  }
  return catalogue;
}

Catalogue Catalogue::of(const RunSpec& spec) {
  return spec.plugins.empty() ? Catalogue() : find(spec.plugin_path);
}

const PluginDescription& Catalogue::at(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& plugin : plugins_) {
    if (plugin.name == name) return plugin;
    names.push_back(plugin.name);
  }
  for (const auto& [file, reason] : unusable_)
    if (plugin_name_of(file) == name)
      throw Error(ErrorCode::invalid_plugin, "plugin '" + name + "' cannot be used: " + reason, {},
                  file.string());
  const std::string best = nearest(name, names);
  std::string cure = best.empty()
                         ? "your own plugins need --plugin-path FOLDER; optrush plugins lists the others"
                         : "did you mean '" + best + "'? Your own plugins need --plugin-path FOLDER";
  for (const auto& [file, reason] : unusable_)
    if (file.extension() != ".so") cure += "\n  not searched: " + file.string() + ": " + reason;
  throw Error(ErrorCode::unknown_name, "no plugin '" + name + "'", cure);
}

std::vector<Error> Catalogue::errors_of(const std::vector<PluginUse>& stack,
                                        const std::vector<PluginUse>& added) const {
  std::vector<Error> errors;
  std::vector<std::string> stacked, provided;
  for (const auto& use : stack) {
    if (contains(stacked, use.name)) {
      errors.emplace_back(ErrorCode::conflict, "plugin '" + use.name + "' is stacked twice");
      continue;
    }
    stacked.push_back(use.name);
    const auto& more = at(use.name).provides;
    provided.insert(provided.end(), more.begin(), more.end());
  }
  const auto is_added = [&](const std::string& name) {
    return std::ranges::count(added, name, &PluginUse::name) != 0;
  };
  for (const auto& name : stacked) {
    const auto& plugin = at(name);
    for (const auto& other : plugin.conflicts)
      if (contains(stacked, other)) {
        const std::string& below = is_added(other) && !is_added(name) ? name : other;
        errors.emplace_back(ErrorCode::conflict, "plugins '" + name + "' and '" + other + "' conflict",
                            "remove one: without = \"" + below + "\" or replace = \"" + below + "\"");
      }
    for (const auto& other : plugin.requirements)
      if (!contains(stacked, other) && !contains(provided, other))
        errors.emplace_back(ErrorCode::missing_value,
                            "plugin '" + name + "' requires '" + other + "', which is not stacked",
                            "stack '" + other + "' as well; stacked: " + join(stacked));
  }
  return errors;
}

PluginUse parse_plugin_argument(const std::string& argument, const Catalogue& catalogue) {
  const auto fail = [&](const std::string& what) {
    throw UsageError("--plugin " + argument + ": " + what, "write --plugin NAME:key=value,key=value");
  };
  const auto colon = argument.find(':');
  PluginUse use{.name = argument.substr(0, colon)};
  const PluginDescription& plugin = catalogue.at(use.name);
  if (colon == std::string::npos) return use;
  std::string key;
  for (const std::string& piece : split(argument.substr(colon + 1), ",")) {
    const auto equals = piece.find('=');
    if (equals == std::string::npos) {
      if (key.empty() || plugin.type_of(key) != "list") fail("'" + piece + "' is not key=value");
      use.options[key].push_back(piece);
      continue;
    }
    key = piece.substr(0, equals);
    if (use.options.contains(key)) fail("'" + key + "' is given twice");
    use.options[key] = option_value(plugin.type_of(key), piece.substr(equals + 1));
  }
  return use;
}
}  // namespace optrush
