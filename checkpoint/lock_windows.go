package checkpoint

// noFollow has no effect on Windows, because only privileged users can create links there.
const noFollow = 0
