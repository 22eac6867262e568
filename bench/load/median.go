package load

import "slices"

// Median of some values, the mean of the middle two if their number is even; 0: there are none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// MedianOf is that of a figure over results.
func MedianOf(list []*Result, of func(*Result) float64) float64 {
	values := make([]float64, len(list))
	for i, r := range list {
		values[i] = of(r)
	}
	return Median(values)
}
