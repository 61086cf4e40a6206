// What the contract suite runs on: every registered variant with every value of every option, at
// sizes where the option matters (samples of up to 64 positions, two heads of width 4).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "attention_variants/registry.h"

namespace lra {

struct ContractCase {
  std::string spec;            // nystrom[num_landmarks=5]
  std::string breaks_batch;    // why, by definition, other samples matter; empty: they must not
  std::string breaks_padding;  // why, by definition, what stands at padded positions matters;
                               // empty: it must not
  // Other clauses that it breaks by definition, and why.
  std::vector<std::pair<std::string, std::string>> breaks = {};
};

inline std::vector<ContractCase> nystrom_cases() {
  const std::string global =
      "init=global takes the maximum over the batch, as the first released code does";
  const std::string ignored =
      "padding=ignored averages padded positions into the landmarks, as transformers does";
  std::vector<ContractCase> cases;
  for (const char* landmarks : {"segment_means", "adaptive_pool", "strided", "random"}) {
    for (const char* padding : {"masked", "zeroed", "ignored"}) {
      const std::string spec = std::string("nystrom[num_landmarks=5,landmarks=") + landmarks +
                               ",padding=" + padding + "]";
      cases.push_back({spec, "", padding == std::string("ignored") ? ignored : ""});
    }
  }
  cases.push_back({"nystrom[num_landmarks=5,init=global]", global, ""});
  cases.push_back({"nystrom[num_landmarks=5,init=per_matrix]", "", ""});
  cases.push_back(
      {"nystrom[num_landmarks=3,pinv=exact]",
       "",
       "",
       {{"types agree", "an exact inverse multiplies rounding by the condition number"}}});
  cases.push_back({"nystrom[num_landmarks=5,pinv=iterative,pinv_iterations=1]", "", ""});
  cases.push_back({"nystrom[num_landmarks=1]", "", ""});
  for (const char* kernel : {"0", "1", "4", "7"}) {
    cases.push_back(
        {std::string("nystrom[num_landmarks=4,conv_kernel_size=") + kernel + "]", "", ""});
  }
  return cases;
}

inline std::vector<ContractCase> linformer_cases() {
  std::vector<ContractCase> cases;
  for (const char* sharing : {"headwise", "none", "key_value", "heads_only"}) {
    cases.push_back({std::string("linformer[projected_length=7,sharing=") + sharing + "]", "", ""});
  }
  cases.push_back({"linformer[projected_length=2,init=normal]", "", ""});
  cases.push_back({"linformer[projected_length=5,init=uniform]", "", ""});
  cases.push_back({"linformer[projected_length=5,init=xavier,dropout=0.1]", "", ""});
  cases.push_back({"linformer[projected_length=5,tables=model,trained=false]", "", ""});
  return cases;
}

inline std::vector<ContractCase> performer_cases() {
  std::vector<ContractCase> cases;
  for (const char* kernel : {"softmax", "relu"}) {
    for (const char* prescale : {"true", "false"}) {
      cases.push_back({std::string("performer[num_features=19,kernel=") + kernel +
                           ",prescale=" + prescale + "]",
                       "", ""});
    }
  }
  // So many that a step of finite differences leads over kinks of some.
  cases.push_back({"performer[num_features=256,kernel=relu]", "", ""});
  cases.push_back({"performer[num_features=2]", "", ""});
  cases.push_back({"performer[num_features=3]", "", ""});  // fewer than d
  cases.push_back({"performer[num_features=12,orthogonal=true]", "", ""});
  cases.push_back({"performer[num_features=12,orthogonal=false]", "", ""});
  cases.push_back({"performer[num_features=12,redraw_interval=1]", "", ""});
  cases.push_back({"performer[num_features=12,epsilon=1e-2,guard=1e-3]", "", ""});
  cases.push_back({"performer[num_features=12,key_max=batch]",
                   "",
                   "",
                   {{"batch invariance", "the keys' maximum is the batch's"}}});
  cases.push_back({"performer[num_features=12,epsilon=1e-2,max_gradient=detached]",
                   "",
                   "",
                   {{"finite differences", "the maximum is not differentiated"}}});
  return cases;
}

inline std::vector<ContractCase> mixer_cases(const std::string& name,
                                             const std::vector<std::string>& options) {
  std::vector<ContractCase> cases;
  for (const std::string& given : options) cases.push_back({name + "[" + given + "]", "", ""});
  return cases;
}

/// Variant name -> its options, varied.
inline std::map<std::string, std::vector<ContractCase>> varied_cases() {
  const std::string unread_scores =
      "it starts at scores of 0.02² over the number of keys: gradients below 1e-9";
  return {
      {"localconv",
       {{"localconv[kernel=3,one_sided=true]", "", ""},
        {"localconv[kernel=5,depthwise=false]", "", ""}}},
      {"longconv",
       {{"longconv[init=0.5,bidirectional=false]", "", ""},
        {"longconv[init=0.5,squash=0.1,dropout=0.1]", "", ""},
        {"longconv[squash=0.002,dropout=0.2]", "", ""}}},
      {"lru", mixer_cases("lru", {"state=5,r_min=0.5,r_max=0.9,max_phase=3",
                                  "state=4,bidirectional=true,normalise=false"})},
      {"mega",
       {{"mega[ema=3,z=5,hidden=7,chunk=8,truncation=6]", "", ""},
        {"mega[attention=laplace,bidirectional=false,z=4,hidden=6]",
         "",
         "",
         {{"gradients of every parameter", unread_scores}}},
        {"mega[attention=relu2,chunk=16,z=4,hidden=6]",
         "",
         "",
         {{"gradients of every parameter", unread_scores}}}}},
      {"s4d",
       mixer_cases("s4d",
                   {"init=inv,state=8,dt=softplus", "init=legs,discretisation=bilinear",
                    "init=real,state=4,copies=2,bidirectional=false", "dt_min=0.1,dt_max=0.5"})},
      {"s5", mixer_cases("s5", {"state=12,blocks=2,discretisation=bilinear,clip_eigs=true",
                                "state=8,bidirectional=false,c_init=lecun,step_rescale=2",
                                "c_init=complex_normal,dt_min=0.1,dt_max=0.5"})},
      {"standard",
       {{"standard[implementation=fused]", "", ""},
        {"standard[implementation=materialized]", "", ""},
        {"standard[implementation=materialized,dropout=0.1]", "", ""},
        {"standard[dropout=0.1]", "", ""}}},
      {"nystrom", nystrom_cases()},
      {"linear",
       {{"linear[feature_map=elu]", "", ""},
        {"linear[normalise=true]", "", ""},
        {"linear[epsilon=1e-2]", "", ""},
        {"linear[normalise=false]", "", ""}}},
      {"linformer", linformer_cases()},
      {"local", {{"local[block=1]", "", ""}, {"local[block=7]", "", ""}}},
      {"longformer",
       {{"longformer[window=2]", "", ""},
        {"longformer[window=8]", "", ""},
        {"longformer[window=8,global_tokens=1]", "", ""},
        {"longformer[window=20,global_tokens=6]", "", ""},
        {"longformer[window=8,window_form=counted,dropout=0.1]", "", ""}}},
      {"sparse",
       {{"sparse[block=8,summary=3,causal=false]", "", ""},
        {"sparse[block=8,summary=3,causal=true]", "", ""},
        {"sparse[block=5,summary=0]", "", ""},
        {"sparse[causal=true]", "", ""},
        {"sparse[block=8,summary=3,cls=open,dropout=0.1]", "", ""},
        {"sparse[block=8,summary=3,causal=true,cls=open]", "", ""}}},
      {"bigbird",
       {{"bigbird[block=4,random_blocks=2]", "", ""},
        {"bigbird[block=3,random_blocks=0]", "", ""},
        {"bigbird[block=1,random_blocks=1,seed=7]", "", ""},
        {"bigbird[block=4,random_blocks=2,random_range=24,append=block]", "", ""}}},
      {"performer", performer_cases()},
      {"synthesizer",
       {{"synthesizer[kind=factorized,rank=1]", "", ""},
        {"synthesizer[kind=factorized,rank=4]", "", ""},
        {"synthesizer[kind=random]", "", ""},
        {"synthesizer[kind=dense]", "", ""}}},
      {"skyformer",
       {{"skyformer[num_features=1]", "", ""},
        {"skyformer[num_features=5]", "", ""},
        {"skyformer[num_features=16]", "", ""},
        {"skyformer[num_features=5,positions=prefix]", "", ""},
        {"skyformer[num_features=5,init=global]",
         "",
         "",
         {{"batch invariance", "the inverse starts from the batch's largest norm"}}}}},
      {"reformer",
       {{"reformer[chunk_length=4,num_hashes=1,num_buckets=4,chunks_before=0]", "", ""},
        {"reformer[chunk_length=8,num_hashes=3,chunks_after=1,bias=false]", "", ""},
        {"reformer[chunk_length=2,num_hashes=2,key_scale=rms]", "", ""},
        {"reformer[chunk_length=1,num_hashes=2,key_scale=unit,chunks_before=3]", "", ""}}},
      {"sinkhorn",
       {{"sinkhorn[block=4,sort=softmax]", "", ""},
        {"sinkhorn[block=7,max_blocks=30]", "", ""},
        {"sinkhorn[block=4,sort=sinkhorn,iterations=2,temperature=1.5]", "", ""},
        {"sinkhorn[block=2,sort=sinkhorn]", "", ""}}},
  };
}

/// Released forms, and the clauses that they break because the released code does.
inline std::vector<ContractCase> released_cases() {
  const std::string runs =
                        "masks are cut in runs and positions in strides, so that padding is seen",
                    unmasked = "nothing is masked, and rows of the result hold other positions",
                    equal = "a query that sees nothing has equal logits, whose gradient is kept",
                    rounding = "logits are unnormalised squares times √d: bfloat16 moves buckets";
  return {{"local_tay2020", "", runs},
          {"local_tay2020[block=7,dropout=0.1]", "", runs, {{"finite differences", equal}}},
          {"sinkhorn_tay2020", "", runs},
          {"sinkhorn_tay2020[block=7,dropout=0.1]", "", runs, {{"finite differences", equal}}},
          {"reformer_tay2020", "", unmasked, {{"autocast", rounding}}},
          {"performer_tay2020", "", ""},
          {"synthesizer_tay2020[dropout=0.1]", "", ""}};
}

/// Every registered variant with its defaults, and those of varied_cases(); then released forms.
inline std::vector<ContractCase> contract_cases() {
  std::map<std::string, std::vector<ContractCase>> varied = varied_cases();
  std::vector<ContractCase> cases;
  for (const AttentionEntry* entry : attention_entries()) {
    cases.push_back({entry->info.name, "", ""});
    for (const ContractCase& c : varied[entry->info.name]) cases.push_back(c);
  }
  for (const ContractCase& c : released_cases()) cases.push_back(c);
  return cases;
}

}  // namespace lra
