# mypy: allow-untyped-defs
"""Exact samples of a linear-Gaussian model from unit noises:

z_1 = m_0 + P_0^1/2 e        z_{t+1} = A z_t + drift_t + Q^1/2 e        x_t = C z_t + shift_t + R^1/2 e
"""

from __future__ import annotations

from trellis.core.numerics import kernel


@kernel
def simulate(system, drift, shift, z_noise, x_noise, z, x):
    """States and observations (S, T, .) from unit noises; ``drift`` and ``shift`` have T rows or one."""
    A, Q_root, C, R_root = system.A, system.Q_root, system.C, system.R_root
    n, m = A.shape[1], C.shape[1]
    a_step, q_step, c_step = int(A.shape[0] > 1), int(Q_root.shape[0] > 1), int(C.shape[0] > 1)
    r_step, d_step, x_step = int(R_root.shape[0] > 1), int(drift.shape[0] > 1), int(shift.shape[0] > 1)
    for s in range(z.shape[0]):
        for t in range(z.shape[1]):
            root = system.root if t == 0 else Q_root[(t - 1) * q_step]
            for i in range(n):
                total = system.mean[i] if t == 0 else drift[(t - 1) * d_step, i]
                for j in range(i + 1):
                    total += root[i, j] * z_noise[s, t, j]
                if t > 0:
                    for j in range(n):
                        total += A[(t - 1) * a_step, i, j] * z[s, t - 1, j]
                z[s, t, i] = total
            for i in range(m):
                total = shift[t * x_step, i]
                for j in range(i + 1):
                    total += R_root[t * r_step, i, j] * x_noise[s, t, j]
                for j in range(n):
                    total += C[t * c_step, i, j] * z[s, t, j]
                x[s, t, i] = total
