#pragma once
#include <map>
#include <string>
#include <vector>

#include "optrush/options.h"
#include "spec/record.h"

namespace optrush {
/// The kind of model of a spec that a program trains without a model of ours.
inline constexpr const char* kProgramKind = "program";

/// A change of a program by a rung that is stacked on it.
struct ProgramChange {
  std::string rung;                          ///< the rung that makes it
  std::vector<std::string> command;          ///< replaces the command; empty: keeps it
  std::vector<std::string> args;             ///< added after the arguments of the rungs below
  std::map<std::string, std::string> files;  ///< hashes of the files that it names, by path
  Effect effect = Effect::rounding;          ///< effect on arithmetic, relative to the rung below

  bool operator==(const ProgramChange&) const = default;
};

/// A program that trains instead of the worker (docs/guides/your_script.md). It gets the run's spec and
/// writes or prints a RunResult.
struct External {
  std::vector<std::string> command;  ///< with placeholders, before the changes
  std::string folder;                ///< folder of the script, in which the command starts
  std::vector<std::string> preload;  ///< libraries for the dynamic loader to preload
  std::string requirements;          ///< requirements file of pip with its Python packages; "": none
  /// File with the names of system packages that it needs; "": not stated
  std::string packages;
  /// Hashes of its files by path; a changed file makes another run
  std::map<std::string, std::string> files;
  Effect effect = Effect::rounding;         ///< effect on arithmetic, relative to the rung below
  bool interleave = false;                  ///< whether it supports the protocol of interleaved runs
  bool headline = true;                     ///< whether a headline may name it as the fastest program
  std::vector<ProgramChange> changes = {};  ///< by the rungs that are stacked on it, the lowest first

  bool operator==(const External&) const = default;
};

/// The placeholders in a command for values of a run, such as "{spec}".
const std::vector<std::string>& placeholders();
/// The first name in braces in a word of a command that is not a placeholder: "{outt}" in "--out={outt}"; ""
/// if there is none. "${HOME}" and "{\"a\": 1}" do not count.
std::string unknown_placeholder(const std::string& word);

/// The command with all changes.
std::vector<std::string> full_command(const External&);
/// A short name of the program: the first file in its command, otherwise the first word.
std::string program_name(const External&);

Record<ProgramChange> record_of(const ProgramChange*);
Record<External> record_of(const External*);
}  // namespace optrush
