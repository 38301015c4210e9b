"""Sums over clusters, from which intervals of rates and means are computed."""

from collections.abc import Iterable
from typing import Self

from msgspec import Struct

_ROUNDING = 1e-9


class ClusterMoments(Struct, frozen=True):
    """Sums over clusters of values of 0..1; a cluster is a case with all its repeats, or a session.

    In the sums, n is a cluster's number of rows and y the sum of its values.
    """

    clusters: int
    rows: int
    """The sum of n."""
    total: float
    """The sum of y."""
    squares: float
    """The sum of y²."""
    crosses: float
    """The sum of n·y."""
    sizes: float
    """The sum of n²."""
    cubes: tuple[float, float, float, float]
    """The sums of y³, n·y², n²·y and n³."""

    @classmethod
    def of_rows(cls, rows: int, total: float, squares: float, cubes: float) -> Self:
        """Return the moments of rows that are clusters of their own, from the sums of values, squares and cubes."""
        return cls(
            clusters=rows,
            rows=rows,
            total=total,
            squares=squares,
            crosses=total,
            sizes=rows,
            cubes=(cubes, squares, total, rows),
        )

    @classmethod
    def of_passes(cls, rows: int, passed: float) -> Self:
        """Return the moments of rows that are clusters of their own, each 0 or 1."""
        return cls.of_rows(rows, passed, passed, passed)

    @classmethod
    def of_clusters(cls, clusters: Iterable[tuple[int, float]]) -> Self:
        """Return the moments of clusters, each given by its number of rows and the sum of its values."""
        count, rows, sizes, cubed_sizes = 0, 0, 0, 0
        zero: float = 0  # an int, so that sums of integers are exact
        total = squares = crosses = cubes = by_size = by_squared_size = zero
        for size, value in clusters:
            count += 1
            rows += size
            sizes += size * size
            cubed_sizes += size**3
            total += value
            squares += value * value
            crosses += size * value
            cubes += value**3
            by_size += size * value * value
            by_squared_size += size * size * value
        return cls(
            clusters=count,
            rows=rows,
            total=total,
            squares=squares,
            crosses=crosses,
            sizes=sizes,
            cubes=(cubes, by_size, by_squared_size, cubed_sizes),
        )

    def __add__(self, other: "ClusterMoments") -> "ClusterMoments":
        """Return the moments of all clusters of both; they must not share a cluster."""
        return ClusterMoments(
            clusters=self.clusters + other.clusters,
            rows=self.rows + other.rows,
            total=self.total + other.total,
            squares=self.squares + other.squares,
            crosses=self.crosses + other.crosses,
            sizes=self.sizes + other.sizes,
            cubes=(
                self.cubes[0] + other.cubes[0],
                self.cubes[1] + other.cubes[1],
                self.cubes[2] + other.cubes[2],
                self.cubes[3] + other.cubes[3],
            ),
        )

    def times(self, count: int) -> "ClusterMoments":
        """Return the moments of `count` copies of these clusters."""
        cubes, by_size, by_squared_size, sizes = self.cubes
        return ClusterMoments(
            clusters=self.clusters * count,
            rows=self.rows * count,
            total=self.total * count,
            squares=self.squares * count,
            crosses=self.crosses * count,
            sizes=self.sizes * count,
            cubes=(cubes * count, by_size * count, by_squared_size * count, sizes * count),
        )

    def in_units(self, per_one: int) -> "ClusterMoments":
        """Return the moments of the values divided by `per_one`."""
        cubes, by_size, by_squared_size, sizes = self.cubes
        return ClusterMoments(
            clusters=self.clusters,
            rows=self.rows,
            total=self.total / per_one,
            squares=self.squares / per_one**2,
            crosses=self.crosses / per_one,
            sizes=self.sizes,
            cubes=(cubes / per_one**3, by_size / per_one**2, by_squared_size / per_one, sizes),
        )

    @property
    def is_repeated(self) -> bool:
        """True if any cluster holds more than one row."""
        return self.clusters < self.rows

    @property
    def effective_clusters(self) -> float:
        """The effective number of clusters if repeats are identical: rows² / Σ n² (Kish 1965)."""
        return self.rows**2 / self.sizes

    @property
    def mean(self) -> float:
        """The mean over all rows."""
        return self.total / self.rows

    @property
    def scatter(self) -> float:
        """The sum of (y - n·mean)² over clusters; 0.0 when all cluster means are the same."""
        mean = self.mean
        scatter = self.squares - 2 * mean * self.crosses + mean * mean * self.sizes
        # Sums that cancel out leave rounding errors: standard deviations below 0.00003 count as 0.
        return 0.0 if scatter <= _ROUNDING * self.sizes else scatter

    @property
    def cubed_scatter(self) -> float:
        """The sum of (y - n·mean)³ over clusters: negative if a few clusters are far below the others."""
        mean = self.mean
        cubes, by_size, by_squared_size, sizes = self.cubes
        return cubes - 3 * mean * by_size + 3 * mean * mean * by_squared_size - mean**3 * sizes

    @property
    def variance(self) -> float:
        """The squared standard error of the mean, by cluster; 0.0 when all cluster means are the same.

        m / (m - 1) · scatter / rows²: the cluster-robust variance of a ratio, which for clusters of one size is the
        variance of the cluster means over m. Needs two clusters. Liang & Zeger 1986; Miller 2024, arXiv:2411.00640.
        """
        return self.clusters / (self.clusters - 1) * self.scatter / self.rows**2
