package csr

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windowsmachine/operator/pkg/csr"
)

type metrics struct {
	verdicts *prometheus.CounterVec
	delay    prometheus.Histogram
}

// newMetrics makes the metrics and registers them where there is a registry. Labels are constants of pkg/csr, so the number
// of series is bounded.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windowsmachine_csr_verdicts_total",
			Help: "Certificate requests looked at, by verdict and reason. A request that waits is counted each time.",
		}, []string{"verdict", "reason"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "windowsmachine_csr_approval_seconds",
			Help:    "Seconds from a certificate request's creation to its approval by the operator.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900},
		}),
	}
	if reg == nil {
		return m, nil
	}
	if err := reg.Register(m.verdicts); err != nil {
		return nil, err
	}
	return m, reg.Register(m.delay)
}

func (m *metrics) count(d csr.Decision, age time.Duration) {
	m.verdicts.WithLabelValues(string(d.Verdict), string(d.Reason)).Inc()
	if d.Verdict == csr.Approve {
		m.delay.Observe(age.Seconds())
	}
}
