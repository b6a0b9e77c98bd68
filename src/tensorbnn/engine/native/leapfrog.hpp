// A whole trajectory: `steps` leapfrog steps cost `steps` gradients. See `inference/hmc.py`.
#pragma once

#include "coordinates.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

template <class T, bool Chains>
class Leapfrog {
 public:
  Leapfrog(const Trajectory<T>& trajectory)
      : t_(trajectory), coordinates_(*trajectory.prior, trajectory.numbers),
        count_(trajectory.dimension * step<T, Chains>) {}

  // `steps` and `step_size` hold one number, or one a lane.
  void run() {
    constexpr int chains = Chains ? lanes<T> : 1;
    int most = 0;
    for (int chain = 0; chain < chains; ++chain)
      most = t_.steps[chain] > most ? t_.steps[chain] : most;
    const Vector<T> size = parameter<T, Chains>(t_.step_size);
    kick(T(0.5) * size, always());
    for (int s = 0; s < most; ++s) {
      const Integers<T> active = still_going(s);
      drift(size, active);
      evaluate();
      kick(size, active);
    }
    kick(T(-0.5) * size, always());
  }

 private:
  static Integers<T> always() { return Integers<T>{} == Integers<T>{}; }

  Integers<T> still_going(int s) const {
    if constexpr (!Chains) return always();
    Integers<T> result;
    for (int chain = 0; chain < lanes<T>; ++chain) result[chain] = s < t_.steps[chain] ? -1 : 0;
    return result;
  }

  // Arrays have room for whole vectors.
  void kick(Vector<T> size, Integers<T> active) {
    for (size_t i = 0; i < count_; i += lanes<T>) {
      const Vector<T> before = load(t_.momentum + i);
      const Vector<T> after = before + size * load(t_.gradient + i);
      store(t_.momentum + i, Chains ? (active ? after : before) : after);
    }
  }

  void drift(Vector<T> size, Integers<T> active) {
    for (size_t i = 0; i < count_; i += lanes<T>) {
      const Vector<T> before = load(t_.position + i);
      const Vector<T> after = before + size * load(t_.momentum + i);
      store(t_.position + i, Chains ? (active ? after : before) : after);
    }
  }

  void evaluate() {
    const Vector<T> log_prior = coordinates_.forward(t_.position, t_.values);
    const int from = t_.prior->sd_from;
    alignas(64) T sd[lanes<T>], sd_gradient[lanes<T>];
    const T* current = t_.sd;
    if (from >= 0) {
      store(sd, coordinates_.hyper(from));
      current = sd;
    }
    double value[lanes<T>];
    t_.likelihood(t_.context, t_.values, current, t_.by_values, value, sd_gradient);
    if (from >= 0)
      coordinates_.add_to_hyper(from, parameter<T, Chains>(sd_gradient));
    coordinates_.backward(t_.position, t_.values, t_.by_values, t_.gradient);
    if constexpr (Chains)
      for (int chain = 0; chain < lanes<T>; ++chain)
        t_.log_density[chain] =
            static_cast<T>(value[chain] + static_cast<double>(log_prior[chain]) +
                           t_.prior->constant);
    else
      *t_.log_density = static_cast<T>(value[0] + sum<T>(log_prior) + t_.prior->constant);
  }

  const Trajectory<T>& t_;
  Coordinates<T, Chains> coordinates_;
  size_t count_;
};

template <class T>
void follow_one(const Trajectory<T>& trajectory) {
  Leapfrog<T, false>(trajectory).run();
}

template <class T>
void follow_chains(const Trajectory<T>& trajectory) {
  Leapfrog<T, true>(trajectory).run();
}

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
