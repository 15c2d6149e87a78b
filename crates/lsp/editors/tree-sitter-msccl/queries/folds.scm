[(block) (parameters) (list) (comprehension)] @fold
