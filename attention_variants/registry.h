// How a variant registers, and how users name one: nystrom[num_landmarks=32].
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/attention.h"
#include "attention_variants/base/fields.h"

namespace lra {

/// How a variant stands to softmax attention over all tokens.
enum class Softmax {
  exact,
  approximate,  // approaches it as its budget grows, or would in exact arithmetic
  different,    // another function, by design
};
constexpr auto names(Softmax) { return std::array{"exact", "approximate", "different"}; }

/// An option of a variant that is read only where another has a value: {"init", "pinv",
/// "iterative"}.
struct ReadWhere {
  std::string option;
  std::string other;
  json value;  // of the other
};

/// What `lra list attentions` and the docs say of a variant.
struct AttentionInfo {
  std::string name;
  std::string title;       // "Nyström"
  std::string paper;       // "Xiong et al., AAAI 2021"
  std::string complexity;  // "O(N m)": time, and memory where no more is said
  Softmax softmax = Softmax::different;
  std::string budget;            // the option that trades cost for accuracy; may be empty
  bool linear = false;           // memory grows linearly with N, in inference and in training
  std::string state;             // learned tensors beside the projections, and tables; may be empty
  bool length_bound = false;     // has parameters sized by max_length
  bool can_be_causal = false;    // honours AttentionContext::causal
  bool can_rotate = false;       // honours AttentionContext::rotary_base
  bool uniform_padding = false;  // honours AttentionContext::padded_rows
  bool model_dropout = false;    // honours AttentionContext::dropout
  // Of one that does not: for whoever asks for it.
  std::string why_unrotated = "it does not say that it can (AttentionInfo::can_rotate)";
  std::string peer;  // what outputs and gradients were checked against
  // The variant whose name some released code gives to this function, which is another one; empty
  // of all others. Protocols of that code choose it (docs/protocols.md).
  std::string released_form_of;
  // Options under which it computes its approximation of softmax alone, where its defaults add
  // something to it (a convolution, say).
  json approximation = json::object();
  // Options under which the samples of a batch depend on each other: {"init": "global"}.
  json couples_batch = json::object();
  // Options under which it draws anew in every pass, evaluation too: {"redraw", "forward"}.
  json draws_in_passes = json::object();
  // Options under which its causal form has its weights at other positions: {"one_sided": false}.
  json moves_in_causal_form = json::object();
  // Options that its causal form does not read: {"bidirectional": true}. Asked for, they are an
  // error there.
  json unread_in_causal_form = json::object();
  // Options that others switch off: giving one a value that nothing reads is an error.
  std::vector<ReadWhere> read_where;
  // Whether the experiments on landmark matrices are on its own; at most one variant's are.
  bool landmark_study = false;
};

/// An attention and its options as a user names it: nystrom[num_landmarks=32].
struct AttentionSpec {
  std::string name;
  json options = json::object();  // those given, not the defaults

  /// The canonical text: the name, then the given options sorted by key.
  std::string text() const;
};

/// Reads "name", "name[key=value,...]" or, for one made from a file, "name:FILE", and
/// "name:FILE:CLASS[key=value,...]" for a class in it; throws UsageError on a malformed one (names
/// and keys are checked by the registry).
AttentionSpec parse_attention(const std::string& text);

/// The value of an option as it is written: JSON, or a word. Throws UsageError on what is neither,
/// as [False] and .5, which would be words.
json option_from_text(const std::string& key, const std::string& text);

/// Splits "a,b[x=1,y=2],c" at the commas outside brackets and reads each.
std::vector<AttentionSpec> parse_attentions(const std::string& text);

#ifndef LRA_SOURCE_SHA256  // set by the build of a file of LRA_EXTRA_VARIANTS
#define LRA_SOURCE_SHA256 ""
#endif

using AttentionMaker =
    std::function<std::shared_ptr<Attention>(const AttentionContext&, const json& options)>;
struct AttentionEntry {
  AttentionInfo info;
  std::vector<std::string> option_names;
  json default_options;
  std::function<json(const json&)> effective_options;  // strict check of given options; all values
  AttentionMaker make;
  std::string source_sha256 = {};  // of the user's own, built in by LRA_EXTRA_VARIANTS
  // batch_coupling() of effective options, where what they name says it; empty: info.couples_batch.
  std::function<std::string(const json&)> coupling = {};
};

/// Adds to the registry. Names are unique: check_registrations() reports a second registration of a
/// name. `source_sha256`, of the file that registers where that is the user's own, stands in the
/// options in effect under its name, so that records tell what one file computed from what it does
/// since.
bool register_attention(AttentionEntry entry, const std::string& source_sha256 = LRA_SOURCE_SHA256);

/// Throws where a name was registered twice, as by a file of LRA_EXTRA_VARIANTS. Registrations run
/// before main(), where nothing could catch.
void check_registrations();

/// The options in effect, of those that an attention of that name reports: with its source's hash.
json options_in_effect(const std::string& name, json reported);

/// The option among these effective ones of a variant by which the samples of a batch depend on
/// each other, as "init=global", or what a class says of itself; "" where there is none.
std::string batch_coupling(const std::string& name, const json& options);

/// The option of AttentionInfo::moves_in_causal_form among them, written likewise; "" where none
/// is.
std::string moving_in_causal_form(const std::string& name, const json& options);

/// The option by which it draws anew in every pass, as "redraw=forward"; "" where none is.
std::string drawing_in_passes(const std::string& name, const json& options);

/// One text for all spellings of an attention that has these options in effect; its file, if it has
/// one, counts by where it lies.
std::string attention_key(const std::string& name, json options);

/// Throws UsageError where the form is causal and options that somebody gives hold one of
/// AttentionInfo::unread_in_causal_form.
void check_causal_options(const AttentionSpec& given, bool causal);

/// The variants that run by their name alone, sorted by it; those made from a file are not here,
/// nor released forms.
std::vector<const AttentionEntry*> attention_entries();

/// Functions that released code gives a variant's name to (AttentionInfo::released_form_of),
/// sorted.
std::vector<const AttentionEntry*> released_forms();

/// The variant of that name; throws UsageError that lists the valid names and the nearest.
const AttentionEntry& attention_entry(const std::string& name);

/// Whether there is a variant, or a released form, that runs by this name alone, without a file.
bool runs_by_name(const std::string& name);

/// Makes a variant; throws UsageError on an unknown name, key or value, and where the context is
/// causal, or has rotary positions, and the variant cannot.
std::shared_ptr<Attention> make_attention(const AttentionSpec& spec,
                                          const AttentionContext& context);

/// Throws UsageError where a given option, of a value that is not its default, is not read by what
/// is in effect (AttentionInfo::read_where).
void check_options_read(const AttentionInfo& info, const json& given, const json& effective,
                        const json& defaults);

/// Builds the registry entry of a class with constructor (const AttentionContext&, const Options&).
/// Where Options has a `void settle()`, it is called on what was read, to bring options that depend
/// on each other to the values in effect.
template <class Variant, HasFields Options>
bool register_attention(const AttentionInfo& info,
                        const std::string& source_sha256 = LRA_SOURCE_SHA256) {
  const std::string where = "attention " + info.name;
  const auto read = [info, where](const json& given) {
    Options options;
    read_fields(given, options, where);
    if constexpr (requires { options.settle(); }) options.settle();
    if (!info.read_where.empty())
      check_options_read(info, given, write_fields(options), write_fields(Options{}));
    return options;
  };
  return register_attention(
      AttentionEntry{
          .info = info,
          .option_names = field_names<Options>(),
          .default_options = write_fields(Options{}),
          .effective_options = [read](const json& given) { return write_fields(read(given)); },
          .make = [read](const AttentionContext& context,
                         const json& given) -> std::shared_ptr<Attention> {
            return std::make_shared<Variant>(context, read(given));
          }},
      source_sha256);
}

}  // namespace lra
