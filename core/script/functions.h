#pragma once
#include "script/api.h"
#include "script/context.h"

namespace optrush::functions {
/// The largest micro-batch that is considered.
inline constexpr int64_t kMostSequences = 1024;

// The functions behind the binding table, which documents them.
Object llama(ScriptContext&, const Call&);
/// rush.operator and rush.collective: a model of the kind with the function's name.
Object one_alone(ScriptContext&, const Call&);
Object checkpoint(ScriptContext&, const Call&);
Object sizes(ScriptContext&, const Call&);

Object random(ScriptContext&, const Call&);
/// rush.text, rush.documents and rush.preferences: data of the kind with the function's name.
Object files(ScriptContext&, const Call&);
Object tokens(ScriptContext&, const Call&);
Object corpus(ScriptContext&, const Call&);

Object device(ScriptContext&, const Call&);
Object gpu(ScriptContext&, const Call&);
Object cpu(ScriptContext&, const Call&);
Object ranks(ScriptContext&, const Call&);
Object preset(ScriptContext&, const Call&);
Object arg(ScriptContext&, const Call&);
Object max_batch(ScriptContext&, const Call&);
Object plugins(ScriptContext&, const Call&);
Object rung(ScriptContext&, const Call&);
Object external(ScriptContext&, const Call&);

Object experiment(ScriptContext&, const Call&);
Object ladder(ScriptContext&, const Call&);
Object ablation(ScriptContext&, const Call&);
Object grid(ScriptContext&, const Call&);
Object run(ScriptContext&, const Call&);
Object search(ScriptContext&, const Call&);
Object report(ScriptContext&, const Call&);
Object dir(ScriptContext&, const Call&);
}  // namespace optrush::functions
