(function body: (_) @function.inside) @function.around
(algorithm body: (_) @function.inside) @function.around
(comment) @comment.inside
(parameter) @parameter.inside
