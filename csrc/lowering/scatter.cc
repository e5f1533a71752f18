// scatter and its reductions along one dim.
#include "lowering/indexing.h"
#include "lowering/registry.h"

namespace torch_tpu::lowering {
namespace {

using namespace stablehlo;

struct ScatterTarget {
  Value self;
  int64_t dim;
  Value index;
};

ScatterTarget scatter_target(Op& op) {
  ScatterTarget t;
  t.self = at_least_1d(op.tensor("self"));
  t.dim = wrap_dim(op.integer("dim"), t.self.rank());
  t.index = op.tensor("index");
  // An empty index of any rank is allowed and does nothing.
  if (t.index.numel() == 0) return t;
  t.index = checked_index(op, at_least_1d(t.index), t.self.dim(static_cast<int>(t.dim)), IndexRule::kReject);
  return t;
}

// The part of src that index covers.
Value source_of(Op& op, const ScatterTarget& t, ElementType type) {
  Value src = at_least_1d(op.tensor("src", type));
  return slice(src, Dims(src.dims().size(), 0), t.index.dims());
}

Value value_of(Op& op, const ScatterTarget& t, ElementType type) {
  return broadcast_to(op.scalar("value", type), t.index.dims());
}

ScatterInto into(const ScatterTarget& t) {
  return [&t](Value base, Value updates, const Combine& combine) {
    return scatter_elements(base, t.dim, t.index, updates, combine);
  };
}

using Updates = Value (*)(Op&, const ScatterTarget&, ElementType);

Value overwrite(Op& op, Updates updates) {
  ScatterTarget t = scatter_target(op);
  if (t.index.numel() == 0) return op.tensor("self");
  return reshape(into(t)(t.self, updates(op, t, t.self.element()), keep_update), op.dims("self"));
}

Value combined(Op& op, Updates updates, const std::string& reduce, bool include_self) {
  ScatterTarget t = scatter_target(op);
  if (t.index.numel() == 0) return op.tensor("self");
  Value source = updates(op, t, t.self.element());
  return reshape(scatter_reduction(op.target(), t.self, source, reduce, include_self, into(t)), op.dims("self"));
}

// The older spelling of the reductions.
std::string legacy_reduce(Op& op) {
  const std::string& reduce = op.string("reduce");
  if (reduce == "add") return "sum";
  if (reduce == "multiply") return "prod";
  throw CallError("reduce argument must be either add or multiply.");
}

Value scatter_src(Op& op) { return overwrite(op, source_of); }
Value scatter_value(Op& op) { return overwrite(op, value_of); }
Value scatter_src_reduce(Op& op) { return combined(op, source_of, legacy_reduce(op), true); }
Value scatter_value_reduce(Op& op) { return combined(op, value_of, legacy_reduce(op), true); }
Value scatter_add(Op& op) { return combined(op, source_of, "sum", true); }
Value scatter_reduce(Op& op) { return combined(op, source_of, op.string("reduce"), op.boolean("include_self")); }

}  // namespace

void register_scatter(Registry& r) {
  r.add("scatter.src", scatter_src);
  r.add("scatter.value", scatter_value);
  r.add("scatter.reduce", scatter_src_reduce);
  r.add("scatter.value_reduce", scatter_value_reduce);
  r.add("scatter_add", scatter_add);
  r.add("scatter_reduce.two", scatter_reduce);
  register_segment(r);
}

}  // namespace torch_tpu::lowering
