package csr

// What the reconciler needs, for controller-gen. It may approve for the two kubelet signers only.
//
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kube-apiserver-client-kubelet;kubernetes.io/kubelet-serving,verbs=approve
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=list
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list,namespace=default
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get,namespace=kube-node-lease
// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowshosts,verbs=get;list;watch,namespace=windows-machine-operator
// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowshosts/status,verbs=patch,namespace=windows-machine-operator
// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowsnodeprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
