package checkpoint

// noFollow has no effect, because only privileged users can create links on Windows.
const noFollow = 0
