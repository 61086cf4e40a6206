#include "results/records/contract_record.h"

#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr auto contract_fields = [](auto& f, auto& contract) {
  f("passed", contract.passed);
  f("of", contract.of);
  f.list("failed", contract.failed, Presence::sparse, [](auto& fields, auto& failed) {
    fields("clause", failed.clause);
    fields("grade", failed.grade);
  });
};

}  // namespace

std::string ContractRecord::count() const { return fmt::format("{} of {}", passed, of); }

std::string ContractRecord::failures() const {
  std::string text, grade;
  for (const FailedClause& one : failed) {
    text += grade == one.grade ? ", " : (text.empty() ? "" : "; ") + one.grade + ": ";
    text += one.clause;
    grade = one.grade;
  }
  return text;
}

json make_contract_record(const ContractRecord& contract) {
  return write_record(contract, contract_fields);
}

ContractRecord parse_contract_record(const json& value) {
  return read_record<ContractRecord>(value, "contract", contract_fields);
}

}  // namespace lra
