package controlplane

import (
	"slices"
	"strconv"
)

// Names of files in the data folder, which is every program's working directory.
const (
	caCertFile         = "ca.crt"
	caKeyFile          = "ca.key"
	apiCertFile        = "apiserver.crt"
	apiKeyFile         = "apiserver.key"
	kubeletCertFile    = "kubelet-client.crt"
	kubeletKeyFile     = "kubelet-client.key"
	tokenKeyFile       = "sa.key"
	tokenPublicFile    = "sa.pub"
	managerConfigFile  = "controller-manager.kubeconfig"
	adminConfigFile    = "admin.kubeconfig"
	etcdDataFolder     = "etcd"
	etcdClientEndpoint = "unix://etcd-client:0"
	etcdPeerEndpoint   = "unix://etcd-peer:0"
)

// etcdArgs: etcd listens on sockets in the folder only. Its client API is open to whoever reaches it, and so are ports.
func etcdArgs() []string {
	return []string{
		"--name=default",
		"--data-dir=" + etcdDataFolder,
		"--listen-client-urls=" + etcdClientEndpoint,
		"--advertise-client-urls=" + etcdClientEndpoint,
		"--listen-peer-urls=" + etcdPeerEndpoint,
		"--initial-advertise-peer-urls=" + etcdPeerEndpoint,
		"--initial-cluster=default=" + etcdPeerEndpoint,
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

// apiServerArgs: no bootstrap token authentication, as on clusters that do not have it.
func apiServerArgs(n network, port int, extra []string) []string {
	return append([]string{
		"--etcd-servers=" + etcdClientEndpoint,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--permit-port-sharing",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + apiCertFile,
		"--tls-private-key-file=" + apiKeyFile,
		"--client-ca-file=" + caCertFile,
		"--kubelet-client-certificate=" + kubeletCertFile,
		"--kubelet-client-key=" + kubeletKeyFile,
		"--kubelet-certificate-authority=" + caCertFile,
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + tokenPublicFile,
		"--service-account-signing-key-file=" + tokenKeyFile,
		"--service-cluster-ip-range=" + n.serviceCIDR,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged",
		"--profiling=false",
	}, extra...)
}

// controllerManagerArgs: it serves nothing, so that it needs no port. A node is NotReady 40 s after its last lease, four
// renewals of a kubelet; a busy test machine loses one now and then.
func controllerManagerArgs(n network, extra []string) []string {
	args := []string{
		"--kubeconfig=" + managerConfigFile,
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--controllers=*",
		"--root-ca-file=" + caCertFile,
		"--service-account-private-key-file=" + tokenKeyFile,
		"--cluster-signing-cert-file=" + caCertFile,
		"--cluster-signing-key-file=" + caKeyFile,
		"--service-cluster-ip-range=" + n.serviceCIDR,
		"--node-monitor-period=2s",
		"--node-monitor-grace-period=40s",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		"--profiling=false",
	}
	if n.nodeCIDRs != "" {
		args = append(args, "--allocate-node-cidrs", "--cluster-cidr="+n.nodeCIDRs)
	}
	return slices.Concat(args, extra)
}
