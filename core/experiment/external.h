#pragma once
#include <map>
#include <string>
#include <vector>

#include "optrush/edit.h"
#include "optrush/json.h"
#include "optrush/options.h"
#include "spec/spec_json.h"

namespace optrush {
/// A program that does a rung's training in place of the worker (docs/guides/comparing_with_pytorch.md): it
/// is given the run's spec and writes or prints a RunResult.
struct External {
  std::vector<std::string> command;  ///< with placeholders
  std::string folder;                ///< of the script: where the command starts
  std::vector<std::string> preload;  ///< libraries that the dynamic loader takes first
  std::string requirements;          ///< file in pip's form: Python packages that it imports; "": none
  std::string
      packages;  ///< file of names: the system's packages that have its libraries and programs; "": not said
  std::map<std::string, std::string> files;  ///< sha256 by path: another content is another run
  Effect effect = Effect::rounding;          ///< on arithmetic, against the rung below
  bool interleave = false;                   ///< it follows the protocol of interleaved runs

  bool operator==(const External&) const = default;
};

/// Placeholders in a command for values of a run: "{spec}".
const std::vector<std::string>& placeholders();
/// Of a word of a command, the first name in braces that is no placeholder: "{outt}" of "--out={outt}"; empty
/// where there is none. "${HOME}" and "{\"a\": 1}" are no names in braces.
std::string unknown_placeholder(const std::string& word);

Json to_json(const External&);
/// An Error names `where`.
External external_from_json(const Json&, const std::string& where);
}  // namespace optrush
