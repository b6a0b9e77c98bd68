// A whole trajectory: `steps` leapfrog steps cost `steps` gradients. See `inference/hmc.py`.
#pragma once

#include <algorithm>

#include "coordinates.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

// Kicks and drifts of a step, vector by vector, as soon as `Coordinates` has the gradient. Passed
// by value, so that copies stay in registers.
template <class T, bool Chains>
struct Move {
  T *position, *momentum, *gradient;
  const T* sizes;            // the step size of each coordinate, or null
  Vector<T> size;            // the common step size
  Integers<T> kicks, drifts;  // lanes that kick or drift
  bool last;                  // the last step returns gradient and log-density

  // With one chain, the next vector may overlap this one, and its z has not been read yet: so all
  // vectors move later.
  TENSORBNN_INLINE void take(size_t at, Vector<T> found) const {
    if (!Chains || last) store(gradient + at, found);
    if constexpr (Chains) apply(at, found);
  }
  TENSORBNN_INLINE void take_one(size_t at, T found) const { gradient[at] = found; }

  TENSORBNN_INLINE void apply(size_t at, Vector<T> found) const {
    const Vector<T> before = load(momentum + at);
    const Vector<T> after = kicks ? before + size_of(at) * found : before;
    store(momentum + at, after);
    drift(at, after);
  }

  TENSORBNN_INLINE void drift(size_t at, Vector<T> with) const {
    const Vector<T> before = load(position + at);
    store(position + at, drifts ? before + size_of(at) * with : before);
  }

  // A kick by a fraction of a step.
  TENSORBNN_INLINE void kick(size_t at, T part) const {
    store(momentum + at, load(momentum + at) + part * size_of(at) * load(gradient + at));
  }

  TENSORBNN_INLINE Vector<T> size_of(size_t at) const { return sizes ? load(sizes + at) : size; }
};

template <class T, bool Chains>
class Leapfrog {
 public:
  explicit Leapfrog(const Trajectory<T>& trajectory)
      : t_(trajectory), coordinates_(*trajectory.prior, trajectory.numbers),
        count_(trajectory.dimension * step<T, Chains>) {
    for (int lane = 0; lane < lanes<T>; ++lane) steps_[lane] = t_.steps[Chains ? lane : 0];
    const Prior& prior = *trajectory.prior;
    for (int w = 0; w < prior.num_widths; ++w) learned_ = learned_ || prior.sd_from[w] >= 0;
    if (learned_) std::copy(t_.sd, t_.sd + prior.num_widths * step<T, Chains>, sd_);
  }

  void run() {
    constexpr int chains = Chains ? lanes<T> : 1;
    int most = 0;
    for (int chain = 0; chain < chains; ++chain)
      most = t_.steps[chain] > most ? t_.steps[chain] : most;
    const Vector<T> size = t_.own_sizes ? Vector<T>{} : parameter<T, Chains>(t_.step_size);
    Move<T, Chains> move{t_.position, t_.momentum, t_.gradient,
                         t_.own_sizes ? t_.step_size : nullptr, size, {}, goes_beyond(0), false};
    // Arrays are padded to whole vectors.
    for (size_t i = 0; i < count_; i += lanes<T>) {
      move.kick(i, T(0.5));
      move.drift(i, load(t_.momentum + i));
    }
    for (int s = 0; s < most; ++s) {
      move.kicks = move.drifts;
      move.drifts = goes_beyond(s + 1);
      move.last = s == most - 1;
      evaluate(move);
      if constexpr (!Chains)
        for (size_t i = 0; i < count_; i += lanes<T>) move.apply(i, load(t_.gradient + i));
    }
    for (size_t i = 0; i < count_; i += lanes<T>) move.kick(i, T(-0.5));
  }

 private:
  // Lanes whose trajectory has more than `s` steps.
  Integers<T> goes_beyond(typename Types<T>::Integer s) const { return steps_ > s; }

  void evaluate(const Move<T, Chains>& move) {
    const Vector<T> log_prior = coordinates_.forward(t_.position, t_.values);
    if (learned_) take_widths();
    double value[lanes<T>];
    t_.likelihood(t_.context, t_.values, learned_ ? sd_ : t_.sd, t_.by_values,
                  move.last ? value : nullptr, learned_ ? sd_gradient_ : nullptr);
    if (learned_) give_widths();
    coordinates_.backward(t_.position, t_.values, t_.by_values, move);
    if (!move.last) return;
    if constexpr (Chains)
      for (int chain = 0; chain < lanes<T>; ++chain)
        t_.log_density[chain] = static_cast<T>(
            value[chain] + static_cast<double>(log_prior[chain]) + t_.prior->constant);
    else
      *t_.log_density = static_cast<T>(value[0] + sum<T>(log_prior) + t_.prior->constant);
  }

  // Widths of the noise that are hyper-parameters of the position, and their gradients.
  void take_widths() {
    for (int w = 0; w < t_.prior->num_widths; ++w) {
      const int from = t_.prior->sd_from[w];
      if (from < 0) continue;
      const Vector<T> width = coordinates_.hyper(from);
      if constexpr (Chains)
        store(sd_ + w * lanes<T>, width);
      else
        sd_[w] = width[0];
    }
  }

  void give_widths() {
    for (int w = 0; w < t_.prior->num_widths; ++w) {
      const int from = t_.prior->sd_from[w];
      if (from < 0) continue;
      coordinates_.add_to_hyper(from, parameter<T, Chains>(sd_gradient_ + w * step<T, Chains>));
    }
  }

  const Trajectory<T>& t_;
  Coordinates<T, Chains> coordinates_;
  size_t count_;
  Integers<T> steps_;  // of the chain in each lane
  bool learned_ = false;  // whether any width is a hyper-parameter; otherwise the arrays are unused
  alignas(64) T sd_[most_widths * step<T, Chains>], sd_gradient_[most_widths * step<T, Chains>];
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
