package host

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// Metrics of hosts. A nil *Metrics observes nothing.
type Metrics struct {
	ready *prometheus.GaugeVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{ready: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "windowsmachine_host_ready",
		Help: "1 for the present reason of a host's Ready condition.",
	}, []string{"host", "status", "reason"})}
	return m, reg.Register(m.ready)
}

func (m *Metrics) observe(p *pass, after v1alpha1.WindowsHostStatus) {
	if m == nil {
		return
	}
	m.ready.DeletePartialMatch(prometheus.Labels{"host": p.host.Name})
	if c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady); c != nil && !p.finish {
		m.ready.WithLabelValues(p.host.Name, string(c.Status), c.Reason).Set(1)
	}
}
